// A declaration is sent as it is filled in: a click that comes while the last field is still taken over waits for it.
"use strict";
const upload = document.getElementById("upload");
let [taking, waits] = [0, false];
const isEditing = ({ detail }) => detail.ctx.sourceElement !== upload;
document.addEventListener("htmx:config:request", (event) => { if (isEditing(event)) taking += 1; });
document.addEventListener("htmx:finally:request", (event) => {
  if (isEditing(event)) taking -= 1;
  setTimeout(() => { // an answer may be asked for again
    if (!waits || taking > 0) return;
    waits = false;
    upload.requestSubmit();
  });
});
upload.addEventListener("submit", (event) => {
  if (taking === 0) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  waits = true;
}, true);
