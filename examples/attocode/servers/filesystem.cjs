// Files below one folder.

const fs = require("node:fs");
const path = require("node:path");
const serve = require("./serve.cjs");

const root = path.resolve(process.argv[2]);
const inside = name => {
  const full = path.resolve(root, name);
  if (full !== root && !full.startsWith(root + path.sep)) throw new Error(`${name} is outside the allowed folder`);
  return full;
};
const name = { path: { type: "string", description: "A path below the allowed folder." } };

serve("filesystem", {
  read_file: { description: "Read a text file below the allowed folder.", properties: name, required: ["path"], run: async a => fs.readFileSync(inside(a.path), "utf8") },
  list_directory: { description: "List the files below the allowed folder.", properties: name, run: async a => fs.readdirSync(inside(a.path ?? ".")).join("\n") },
  write_file: {
    description: "Write a text file below the allowed folder.",
    properties: { ...name, content: { type: "string", description: "The new content." } },
    required: ["path", "content"],
    run: async a => (fs.writeFileSync(inside(a.path), a.content), `wrote ${a.path}`),
  },
  get_environment: {
    description: "Tell which variables this process has, and the values of two of them.",
    run: async () => JSON.stringify({ names: Object.keys(process.env).sort(), label: process.env.LABEL, folder: process.cwd(), root }),
  },
});
