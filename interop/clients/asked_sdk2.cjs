// The official TypeScript SDK, 2.x, asked for approval: both eras. The same checks as in `asked.py`.

const { execFileSync } = require("node:child_process");
const { existsSync, readFileSync } = require("node:fs");
const { Client, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");
const { check, expect, target: read } = require("./tour.cjs");

const MODES = { legacy: "legacy", modern: { pin: "2026-07-28" } };

async function main() {
  const target = read();
  const capabilities = target.asked ? { elicitation: { form: {} } } : {};
  const client = new Client(
    { name: "asked-typescript-2", version: "2" },
    { capabilities, versionNegotiation: { mode: MODES[target.era] } },
  );
  let answer;
  const questions = [];
  if (target.asked) {
    client.setRequestHandler("elicitation/create", async request => {
      questions.push(request.params.message);
      return answer;
    });
  }
  await client.connect(new StreamableHTTPClientTransport(new URL(target.url)));

  const stands = text => {
    const lines = existsSync(target.ledger) ? readFileSync(target.ledger, "utf8").split("\n") : [];
    return lines.filter(line => line.startsWith(`${text} by `)).length;
  };
  const approvals = (...words) => {
    const [command, ...rest] = target.approvals;
    return JSON.parse(execFileSync(command, ["approvals", ...words, ...rest, "--json"], { encoding: "utf8" }));
  };
  const write = async what => {
    const text = `${target.name}-${what}`.replaceAll(" ", "-");
    return [text, await client.callTool({ name: "led_write_entry", arguments: { text } })];
  };
  const refused = async (what, given) => {
    answer = given;
    const [text, result] = await write(what);
    expect(result.isError, true, "isError");
    expect(result.content[0].text.includes("rejected by"), true, result.content[0].text);
    expect(stands(text), 0, "it ran");
  };
  const elsewhere = async (what, words, state, times) => {
    const [text, result] = await write(what);
    expect(result.isError, true, "isError");
    const id = result._meta["toolbooth/held"].id;
    approvals(words[0], id, ...words.slice(1));
    expect(approvals("show", id).state, state, "state");
    expect(stands(text), times, "it ran");
  };

  if (target.asked) {
    await check("approves when asked", async () => {
      answer = { action: "accept", content: { decision: "approve" } };
      const [text, result] = await write("approved");
      expect(result.content[0].text, `wrote ${text}`);
      expect(stands(text), 1, "it ran");
      expect(questions.length === 1 && questions[0].includes(text), true, "the question names the call");
    });
    await check("rejects when asked", () =>
      refused("rejected", { action: "accept", content: { decision: "reject", reason: "not today" } }));
    await check("declines when asked", () => refused("declined", { action: "decline" }));
  } else {
    await check("approved on the command line", () => elsewhere("approved elsewhere", ["approve"], "done", 1));
    await check("rejected on the command line", () => elsewhere("rejected elsewhere", ["reject"], "rejected", 0));
    await check("was asked nothing", async () => expect(questions, [], "questions"));
  }
  console.log(JSON.stringify({ through: true }));
  await client.close();
}

main().catch(error => {
  console.error(error);
  process.exitCode = 1;
});
