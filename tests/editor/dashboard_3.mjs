// node-red-dashboard 3, which everybody may use.

import { useDashboard } from './dashboard.mjs';
import { scenario } from './scenario.mjs';

scenario((stage) => useDashboard(stage, { path: 'ui/' }));
