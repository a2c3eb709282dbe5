import { run } from '@extender-gateway/policy';

import { NoArm } from './no-arm.js';

run(new NoArm());
