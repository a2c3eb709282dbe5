import { run } from '@extender-gateway/policy';

import { backend } from './policy.js';

run(backend);
