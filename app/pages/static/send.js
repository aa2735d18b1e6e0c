// A declaration is sent as it is filled in: a click that comes while the last field is still taken over waits for it,
// and where it was lost on its way nothing is sent: the next click asks for it again. What is written by hand after
// that is sent as it is.
"use strict";
const [upload, declaration] = ["upload", "declaration"].map((id) => document.getElementById(id));
const taking = new Set();
let [waits, isBehind] = [false, false];
const isEditing = (ctx) => ctx.sourceElement !== upload;
function tell(text) {
  const note = Object.assign(document.createElement("p"), { className: "wrong", role: "alert", textContent: text });
  document.getElementById("answer").replaceChildren(note);
}
function taken(change) {
  taking.delete(change);
  setTimeout(() => { // an answer may be asked for again
    if (!waits || taking.size > 0) return;
    waits = false;
    if (isBehind) tell("Nothing was sent: the service did not take over what you filled in last. Try again.");
    else upload.requestSubmit();
  });
}
document.addEventListener("htmx:config:request", ({ detail: { ctx } }) => { if (isEditing(ctx)) taking.add(ctx); });
document.addEventListener("htmx:finally:request", ({ detail: { ctx } }) => {
  const isTaken = ctx.status === "swapped" && ctx.response.status < 400;
  if (ctx.request.form === declaration) isBehind = !isTaken && ctx.edits === edits;
  taken(ctx);
});
document.addEventListener("input", ({ target }) => { if (target.id === "spec") isBehind = false; });
upload.addEventListener("submit", (event) => {
  if (taking.size === 0 && !isBehind) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  waits = true;
  if (taking.size === 0) htmx.trigger(declaration, "change");
}, true);
