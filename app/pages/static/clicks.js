// Repeats clicks that came before the page's scripts were ready, and delays responses that could move a button.
//
// This script is loaded before the page's body, so it listens before anything can be clicked. Clicks and submissions that
// htmx handles are stored until every script is ready, then repeated in order. A response can move or replace a button.
// A response that arrives while a button is pressed, or when the pointer has just reached it, is shown afterwards. Files
// that are dropped on a form before its script listens are put into the form's file field.
"use strict";
const CLICK_DELAY_MILLISECONDS = 50; // a touch screen reports the click shortly after the pointer is up
const AIM_MILLISECONDS = 300; // between the pointer's arrival on a button and the press
const PRESSABLE = "a, button, label, summary";
const early = [];
let isReady = false;
let press = null;
let aim = { element: null, since: -Infinity };

function keep(event, element, repeat) {
  if (isReady || !element) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  if (event.type === "submit" && early.some((each) => each.element === element)) return;
  early.push({ element, repeat });
  element.ariaBusy = "true";
}

/** Wait until no link or button is pressed or aimed at. */
async function untilReleased() {
  for (;;) {
    const wait = aim.since + AIM_MILLISECONDS - performance.now();
    if (press) await press.promise;
    else if (wait > 0) await new Promise((settle) => { setTimeout(settle, wait); });
    else return;
  }
}

function end() {
  aim.since = -Infinity;
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
for (const type of ["dragover", "drop"]) {
  document.addEventListener(type, (event) => {
    const form = event.target.closest("form[data-keys]");
    if (isReady || !form) return;
    event.preventDefault();
    if (type === "drop") form.querySelector("input[type=file]").files = event.dataTransfer.files;
  }, true);
}
// After `load` and the timers that were set before it, htmx and the page's scripts listen.
addEventListener("load", () => setTimeout(() => {
  isReady = true;
  for (const { element, repeat } of early.splice(0)) {
    element.ariaBusy = null;
    repeat();
  }
}));

document.addEventListener("pointerdown", ({ button, target }) => {
  if (button !== 0 || !target.closest(PRESSABLE)) return;
  const former = press;
  let resolve;
  const promise = new Promise((settle) => { resolve = settle; });
  press = { promise, resolve };
  former?.resolve(); // those that wait for it now wait for this press
}, true);
document.addEventListener("pointerover", ({ target }) => {
  const element = target.closest(PRESSABLE);
  if (element !== aim.element) aim = { element, since: element ? performance.now() : -Infinity };
}, true);
for (const name of ["pointerup", "pointercancel", "contextmenu"]) addEventListener(name, end, true);
addEventListener("blur", end); // of the window, not of a field
document.addEventListener("htmx:config:request", ({ detail: { ctx } }) => {
  ctx.fetch = async (action, request) => {
    const answer = await fetch(action, request);
    const read = answer.text.bind(answer);
    answer.text = async () => {
      const text = await read();
      await untilReleased();
      request.signal.throwIfAborted();
      return text;
    };
    return answer;
  };
});
