// The tour of `tour.py`, for the clients of the TypeScript SDKs.

const PATIENCE_MS = 20_000;
const SERVERS = ["old", "new"];

/** What to connect to: {url} or {command}, and how: {era: "legacy" | "modern" | "auto"}. */
exports.target = () => JSON.parse(process.argv[2]);

/** The answers of this client to what servers ask it. */
exports.answers = {
  elicitation: { action: "decline" },
  sample(params) {
    const content = params.messages[0].content;
    const topic = (Array.isArray(content) ? content[0] : content).text.split(" ").at(-1);
    return { role: "assistant", model: "none", content: { type: "text", text: `A poem about ${topic}.` } };
  },
  roots: { roots: [{ uri: "file:///tour", name: "tour" }] },
};

const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));

function expect(actual, expected, what = "got") {
  const [left, right] = [JSON.stringify(actual), JSON.stringify(expected)];
  if (left !== right) throw new Error(`${what} ${left} instead of ${right}`);
}

async function check(name, body) {
  const begun = performance.now();
  const line = { check: name };
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${PATIENCE_MS} ms`)), PATIENCE_MS);
  });
  try {
    await Promise.race([body(), late]);
  } catch (error) {
    line.failed = `${error.name}: ${error.message}`;
  }
  clearTimeout(timer);
  line.ms = Math.round(performance.now() - begun);
  console.log(JSON.stringify(line));
}

exports.expect = expect;
exports.check = check;

/**
 * The whole tour, for a client that has connected. `told` is a list of functions to call when the list of tools
 * changed; `version` and `serverName` are what the handshake said; `options` puts the options of a call where this SDK
 * has them.
 */
exports.take = async ({ client, era, version, serverName, told, options }) => {
  const call = (name, args) => client.callTool({ name, arguments: args });
  const text = result => result.content[0].text;

  await check("handshake", async () => {
    expect(version, era === "legacy" ? "2025-11-25" : "2026-07-28", "the version is");
    expect(serverName, "toolbooth", "the server is");
  });
  await check("list", async () => {
    const { tools } = await client.listTools();
    const names = tools.map(tool => tool.name);
    for (const server of SERVERS) {
      const add = tools[names.indexOf(`${server}_add`)];
      expect(add.inputSchema.required, ["a", "b"]);
      expect(add.outputSchema.properties, { sum: { type: "number" } });
      expect(add.annotations.readOnlyHint, true);
    }
    expect((await client.listTools()).tools.map(tool => tool.name), names, "a second list is");
  });
  for (const server of SERVERS) {
    await check(`call ${server}`, async () => {
      const result = await call(`${server}_add`, { a: 2, b: 40 });
      expect(text(result), "42");
      expect(result.structuredContent, { sum: 42 });
      const picture = await call(`${server}_test_image_content`, {});
      expect(picture.content[0].mimeType, "image/png");
    });
    await check(`call ${server} losslessly`, async () => {
      const message = { z: "Grüße, 𝄞 \u2028 \u0000", n: null, f: 1.5, deep: [[[{}]]] };
      expect((await call(`${server}_echo`, { message })).structuredContent, { message });
    });
    await check(`failing tool ${server}`, async () => {
      const result = await call(`${server}_fail`, { message: "as asked" });
      expect(result.isError, true);
      expect(text(result), "as asked");
    });
    await check(`progress ${server}`, async () => {
      const seen = [];
      const onprogress = ({ progress }) => seen.push(progress);
      await client.callTool({ name: `${server}_test_tool_with_progress`, arguments: {} }, ...options({ onprogress }));
      // The SDK loses a last report that arrives in one chunk with the answer.
      expect(seen.slice(0, 2), [0, 50], "progress was");
    });
    await check(`question ${server}`, async () => {
      exports.answers.elicitation = { action: "accept", content: { name: "Ada" } };
      expect(text(await call(`${server}_ask_name`, {})), "Hello, Ada!");
      exports.answers.elicitation = { action: "decline" };
      expect(text(await call(`${server}_ask_name`, {})), "No name was given: decline.");
    });
    await check(`sampling ${server}`, async () => {
      expect(text(await call(`${server}_sample_poem`, { topic: "tolls" })), "A poem about tolls.");
    });
    await check(`roots ${server}`, async () => {
      const answer = text(await call(`${server}_list_my_roots`, {}));
      if (!answer.includes("file:///tour")) throw new Error(`no root of ours in ${answer}`);
    });
    await check(`prompt ${server}`, async () => {
      const name = `${server}_test_prompt_with_arguments`;
      const { prompts } = await client.listPrompts();
      if (!prompts.some(prompt => prompt.name === name)) throw new Error(`${name} is not listed`);
      const { messages } = await client.getPrompt({ name, arguments: { arg1: "one", arg2: "two" } });
      expect(messages[0].content.text, "Prompt with arguments: arg1='one', arg2='two'");
    });
    await check(`cancel ${server}`, async () => {
      const cancelled = async () => (await call(`${server}_cancelled_calls`, {})).structuredContent.count;
      const before = await cancelled();
      const hand = new AbortController();
      const slow = { name: `${server}_slow`, arguments: { ms: 30_000 } };
      const answer = client.callTool(slow, ...options({ signal: hand.signal })).catch(error => error);
      // The server has to have begun, or there is nothing to cancel.
      await sleep(500);
      hand.abort();
      await answer;
      // The word travels in its own time.
      for (let round = 0; round < 50 && await cancelled() === before; round += 1) await sleep(100);
      expect(await cancelled(), before + 1, "cancelled calls are");
    });
    await check(`change ${server}`, async () => {
      for (const presence of [true, false]) {
        const notice = new Promise(resolve => told.push(resolve));
        await call(`${server}_change_tools`, { tool: "fleeting" });
        await notice;
        const { tools } = await client.listTools();
        expect(tools.some(tool => tool.name === `${server}_fleeting`), presence, "its presence is");
      }
    });
  }
  await check("unknown tool", async () => {
    const answer = await call("old_no_such_tool", {}).catch(error => error);
    expect(answer.code, -32602, "the code is");
  });
  await check("resources", async () => {
    const { resources } = await client.listResources();
    if (!resources.some(resource => resource.uri === "test://static-text")) throw new Error("it is not listed");
    const { contents } = await client.readResource({ uri: "test://static-text" });
    expect(contents[0].text, "This is the content of the static text resource.");
    const missing = await client.readResource({ uri: "test://nowhere" }).catch(error => error);
    if (![-32602, -32002].includes(missing.code)) throw new Error(`a missing resource has code ${missing.code}`);
  });
  console.log(JSON.stringify({ through: true }));
};
