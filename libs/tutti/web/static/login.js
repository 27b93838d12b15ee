// Drops what this browser keeps of the user before, when the button is pressed. Nothing is submitted without that click.

import { dropKeptPages } from "./kept.js";

const form = document.getElementById("login");
form?.addEventListener("submit", async (event) => {
  event.preventDefault();
  await dropKeptPages();
  form.submit();
});
