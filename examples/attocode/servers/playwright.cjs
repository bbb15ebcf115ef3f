// A browser that only pretends: deterministic answers, no network.

const serve = require("./serve.cjs");

const element = { element: { type: "string", description: "The element, as a person would describe it." } };
const done = what => async arguments_ => `${what} ${arguments_.element ?? arguments_.url ?? ""}`.trim();

serve("playwright", {
  browser_click: {
    description: "Click an element of the page. For example: the button with the text Save.",
    properties: element,
    required: ["element"],
    run: done("clicked"),
  },
  browser_hover: { description: "Move the mouse over an element.", properties: element, required: ["element"], run: done("hovered") },
  browser_snapshot: { description: "Capture the accessibility tree of the current page.", run: done("- document: empty") },
  browser_navigate: {
    description: "Open a page.",
    properties: { url: { type: "string", description: "The address of the page." } },
    required: ["url"],
    run: done("opened"),
  },
  screenshot: { description: "Take a picture of the page.", run: done("a picture") },
  browser_console_messages: {
    description:
      "Return all messages of the console since the page was opened, with their level, their source and the time, including those of the service worker and of each xylophone frame.",
    run: done("no messages"),
  },
});
