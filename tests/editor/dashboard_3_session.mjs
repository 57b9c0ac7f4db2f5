// node-red-dashboard 3 of a Node-RED, behind the sign-in page.

import { useBehindSignIn } from './dashboard_session.mjs';
import { scenario } from './scenario.mjs';

scenario((stage) => useBehindSignIn(stage, { path: 'ui/', reloads: true }));
