// Continues without a click: programs that only fetch links do not run this.
document.getElementById("login").requestSubmit();
