// Sends the file with the declaration as it is filled in.
//
// A click on the button waits for requests that write the last changes of the form into the declaration. If such a
// request failed, nothing is sent, and the next click repeats the request. A declaration that is edited by hand after
// that is sent as it is.
"use strict";
const [upload, declaration] = ["upload", "declaration"].map((id) => document.getElementById(id));
const taking = new Set();
let [waits, isBehind] = [false, false];
const isEditing = (ctx) => ctx.sourceElement !== upload;
function showError(text) {
  const note = Object.assign(document.createElement("p"), { className: "wrong", role: "alert", textContent: text });
  document.getElementById("answer").replaceChildren(note);
}
function finish(change) {
  taking.delete(change);
  setTimeout(() => { // an answer may be asked for again
    if (!waits || taking.size > 0) return;
    waits = false;
    if (isBehind) showError("Nothing was sent: the service did not take over what you filled in last. Try again.");
    else upload.requestSubmit();
  });
}
document.addEventListener("htmx:config:request", ({ detail: { ctx } }) => { if (isEditing(ctx)) taking.add(ctx); });
document.addEventListener("htmx:finally:request", ({ detail: { ctx } }) => {
  const isTaken = ctx.status === "swapped" && ctx.response.status < 400;
  if (ctx.request.form === declaration) isBehind = !isTaken && ctx.edits === edits;
  finish(ctx);
});
document.addEventListener("input", ({ target }) => { if (target.id === "spec") isBehind = false; });
upload.addEventListener("submit", (event) => {
  if (taking.size === 0 && !isBehind) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  waits = true;
  if (taking.size === 0) htmx.trigger(declaration, "change");
}, true);
