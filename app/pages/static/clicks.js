// Keeps every click. It is loaded before the page's body, so it listens before anything can be clicked.
//
// Clicks and submissions that htmx handles are kept until every script is ready, then repeated in order.
// Answers that arrive while a button is pressed are shown once it is released: they would move or replace the button.
"use strict";
const CLICK_DELAY_MILLISECONDS = 50; // a touch screen reports the click shortly after the pointer is up
const early = [];
let isReady = false;
let press = null;

function keep(event, element, repeat) {
  if (isReady || !element) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  if (event.type === "submit" && early.some((each) => each.element === element)) return;
  early.push({ element, repeat });
  element.ariaBusy = "true";
}

/** Wait until no link or button is pressed. */
async function released() {
  while (press) await press.promise;
}

function end() {
  const ended = press;
  if (ended === null) return;
  setTimeout(() => {
    if (press === ended) press = null;
    ended.resolve();
  }, CLICK_DELAY_MILLISECONDS);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[hx-post]");
  keep(event, button, () => button.click());
}, true);
document.addEventListener("submit", (event) => {
  const { target, submitter } = event;
  keep(event, target.closest("form[hx-post]"), () => target.requestSubmit(submitter));
}, true);
// After `load` and the timers that were set before it, htmx and the page's scripts listen.
addEventListener("load", () => setTimeout(() => {
  isReady = true;
  for (const { element, repeat } of early.splice(0)) {
    element.ariaBusy = null;
    repeat();
  }
}));

document.addEventListener("pointerdown", ({ button, target }) => {
  if (button !== 0 || !target.closest("a, button, label, summary")) return;
  const former = press;
  let resolve;
  const promise = new Promise((settle) => { resolve = settle; });
  press = { promise, resolve };
  former?.resolve(); // those that wait for it now wait for this press
}, true);
for (const name of ["pointerup", "pointercancel", "contextmenu"]) addEventListener(name, end, true);
addEventListener("blur", end); // of the window, not of a field
document.addEventListener("htmx:config:request", ({ detail: { ctx } }) => {
  ctx.fetch = async (action, request) => {
    const answer = await fetch(action, request);
    const read = answer.text.bind(answer);
    answer.text = async () => {
      const text = await read();
      await released();
      request.signal.throwIfAborted();
      return text;
    };
    return answer;
  };
});
