/** The messages of the contract, one namespace for each of its files, for programs that speak it themselves. */

export * as hooks from './gen/extender/policy/v1beta1/hooks.js';
export * as info from './gen/extender/policy/v1beta1/info.js';
export * as introspection from './gen/extender/policy/v1beta1/introspection.js';
export * as map from './gen/extender/policy/v1beta1/map.js';
export * as node from './gen/extender/policy/v1beta1/node.js';
export * as outcomes from './gen/extender/policy/v1beta1/outcomes.js';
export * as pod from './gen/extender/policy/v1beta1/pod.js';
export * as policy from './gen/extender/policy/v1beta1/policy.js';
export * as resources from './gen/extender/policy/v1beta1/resources.js';
export * as table from './gen/extender/policy/v1beta1/table.js';
export * as watch from './gen/extender/policy/v1beta1/watch.js';
