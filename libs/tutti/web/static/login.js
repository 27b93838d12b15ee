// Continues without a click: programs that only fetch links do not run this.

import { dropKeptPages } from "./kept.js";

await dropKeptPages();
document.getElementById("login").requestSubmit();
