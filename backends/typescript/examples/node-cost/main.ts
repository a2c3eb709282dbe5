import { run } from '@extender-gateway/policy';

import { nodeCost } from './node-cost.js';

run(nodeCost());
