// Tools that show names, retries, deadlines and plan mode.

const fs = require("node:fs");
const serve = require("./serve.cjs");

const text = { text: { type: "string", description: "Any text." } };
const echo = what => async a => `${what}${a.text ? `: ${a.text}` : ""}`;

// The first call of each kind ends the process; the file remembers it for the next process.
const once = kind => async () => {
  const mark = `.${kind}`;
  const calls = fs.existsSync(mark) ? Number(fs.readFileSync(mark, "utf8")) + 1 : 1;
  fs.writeFileSync(mark, String(calls));
  if (calls === 1) process.exit(7);
  return `${kind} worked at call ${calls}`;
};

serve("workbench", {
  search: { description: "Search the notes of the project for a text.", properties: text, run: echo("found") },
  lint: { description: "Check the style of the project.", run: echo("clean") },
  git_status: { description: "Show the state of the working folder.", run: echo("nothing to commit") },
  git_push: { description: "Push the commits to the remote repository.", run: echo("pushed") },
  create_issue: { description: "Create an issue in the tracker.", properties: text, required: ["text"], run: echo("created") },
  update_issue: { description: "Update an issue in the tracker.", properties: text, required: ["text"], run: echo("updated") },
  delete_issue: { description: "Delete an issue in the tracker.", properties: text, required: ["text"], run: echo("deleted") },
  peek: { description: "Look at the next item of the queue.", annotations: { readOnlyHint: true }, run: echo("next") },
  fragile_read: { description: "Read something; the process ends at the first call.", annotations: { readOnlyHint: true }, run: once("fragile_read") },
  fragile_write: { description: "Write something; the process ends at the first call.", run: once("fragile_write") },
  slow: {
    description: "Wait for some milliseconds; a cancelled call writes the reason into a file.",
    properties: { milliseconds: { type: "number", description: "How long to wait." } },
    required: ["milliseconds"],
    run: (a, extra) =>
      new Promise(resolve => {
        const timer = setTimeout(() => resolve(`waited ${a.milliseconds} ms`), a.milliseconds);
        extra.signal.addEventListener("abort", () => {
          clearTimeout(timer);
          fs.writeFileSync(".cancelled", String(extra.signal.reason?.message ?? extra.signal.reason ?? ""));
          resolve("cancelled");
        });
      }),
  },
  fails: { description: "Always answers with an error that mentions a timeout.", run: async () => { throw new Error("timeout of the heart"); } },
  // Badly described on purpose: see `toolbooth tools lint`.
  nameless: { properties: { a: { type: "string" }, b: { type: "string" } }, run: echo("ran") },
  badName: { description: "Returns the text that it was given, for example hello.", properties: text, required: ["text"], run: echo("ran") },
});
