import { dropDrafts, dropKeptPages } from "./kept.js";

dropDrafts();
await dropKeptPages();
