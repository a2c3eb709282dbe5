import { run } from '@extender-gateway/policy';

import { reference } from './reference.js';

run(reference);
