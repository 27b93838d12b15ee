import { dropKeptPages } from "./kept.js";

await dropKeptPages();
