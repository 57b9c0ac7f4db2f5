// @flowfuse/node-red-dashboard of a Node-RED, behind the sign-in page.

import { useBehindSignIn } from './dashboard_session.mjs';
import { scenario } from './scenario.mjs';

scenario((stage) => useBehindSignIn(stage, { path: 'dashboard/page1', reloads: false }));
