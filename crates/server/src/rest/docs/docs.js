// Shows the REST endpoints of /openapi.json. Loads nothing from elsewhere.
"use strict";

const methods = ["get", "post", "put", "patch", "delete"];

/** Creates an element with text or children. Text from the document is never parsed as HTML. */
function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes ?? {})) made.setAttribute(key, value);
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** Text with `words` as code. */
function prose(text) {
  const span = element("span");
  (text ?? "").split("`").forEach((part, at) => span.append(at % 2 ? element("code", {}, part) : part));
  return span;
}

function nameOf(reference) {
  return reference.split("/").pop();
}

/** A short description of a schema. */
function kind(schema) {
  if (!schema) return "";
  if (schema.$ref) return nameOf(schema.$ref);
  const either = schema.oneOf ?? schema.anyOf ?? schema.allOf;
  if (either) return either.map(kind).filter((word) => word !== "null").join(schema.allOf ? " and " : " or ");
  if (schema.enum) return schema.enum.join(" | ");
  const types = [schema.type ?? "anything"].flat().filter((type) => type !== "null");
  if (types[0] === "array") return `list of ${kind(schema.items)}`;
  return types.join(" or ");
}

/** A schema with its references resolved, each at most once. */
function written(schema, schemas, seen = []) {
  if (!schema || typeof schema !== "object") return schema;
  if (schema.$ref) {
    const name = nameOf(schema.$ref);
    return seen.includes(name) ? { "…": name } : written(schemas[name], schemas, [...seen, name]);
  }
  if (Array.isArray(schema)) return schema.map((one) => written(one, schemas, seen));
  return Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, written(value, schemas, seen)]));
}

function rows(entries) {
  return element("div", { class: "rows" }, ...entries.map(([left, right]) => element("div", {}, left, right)));
}

function parameters(list) {
  return rows(list.map((parameter) => {
    const schema = parameter.schema ?? {};
    const facts = [parameter.in, kind(schema), parameter.required ? "required" : "", schema.default !== undefined ? `default ${schema.default}` : ""];
    const about = element("div", {}, prose(parameter.description), " ", element("span", { class: "dim" }, facts.filter(Boolean).join(", ")));
    return [element("code", {}, parameter.name), about];
  }));
}

function contents(content, schemas) {
  return Object.entries(content ?? {}).map(([type, body]) => {
    const whole = element("pre");
    const more = element("details", {}, element("summary", {}, element("code", {}, type), " ", kind(body.schema)), whole);
    // Resolved when the element is first opened.
    more.addEventListener("toggle", () => { whole.textContent = JSON.stringify(written(body.schema, schemas), null, 2); }, { once: true });
    return more;
  });
}

/** A form that sends a request to the gateway. Only for GET, because other methods may change something. */
function tryIt(path, list) {
  const answer = element("pre", { hidden: "", "aria-live": "polite" });
  const inputs = list.map((parameter) => {
    const input = element("input", { name: parameter.name });
    if (parameter.example !== undefined) input.placeholder = parameter.example;
    if (parameter.in === "path" && parameter.example !== undefined) input.value = parameter.example;
    return [parameter, input];
  });
  const form = element("form", {}, ...inputs.map(([parameter, input]) => element("label", {}, element("code", {}, parameter.name), input)), element("button", {}, "Send"), answer);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    let target = path;
    const query = new URLSearchParams();
    const headers = {};
    for (const [parameter, input] of inputs) {
      if (parameter.in === "path") target = target.replace(`{${parameter.name}}`, encodeURIComponent(input.value));
      else if (input.value === "") continue;
      else if (parameter.in === "header") headers[parameter.name] = input.value;
      else for (const value of parameter.schema?.type?.includes("array") ? input.value.split(" ") : [input.value]) query.append(parameter.name, value);
    }
    const token = document.getElementById("token").value;
    if (token) headers.Authorization = `Bearer ${token}`;
    const asked = query.size ? `${target}?${query}` : target;
    answer.hidden = false;
    try {
      const response = await fetch(asked, { headers });
      let text = (await response.text()).slice(0, 200000);
      try { text = JSON.stringify(JSON.parse(text), null, 2); } catch { /* Not JSON: shown as text. */ }
      answer.textContent = `GET ${asked}\n${response.status} ${response.headers.get("content-type") ?? ""}\n\n${text}`;
    } catch (error) {
      answer.textContent = `GET ${asked}\n${error}`;
    }
  });
  return form;
}

function operation(path, method, told, schemas) {
  const inside = element("div", { class: "inside" });
  const about = element("summary", {},
    element("span", { class: `method ${method}` }, method.toUpperCase()), element("span", { class: "path" }, path),
    element("span", { class: "about" }, prose(told.summary)));
  const whole = element("details", { class: "operation", id: told.operationId }, about, inside);
  whole.addEventListener("toggle", () => {
    if (told.description) inside.append(element("p", {}, prose(told.description)));
    const list = told.parameters ?? [];
    if (list.length) inside.append(element("h3", {}, "Parameters"), parameters(list));
    if (told.requestBody) {
      inside.append(element("h3", {}, "Body"), element("p", {}, prose(told.requestBody.description)), ...contents(told.requestBody.content, schemas));
    }
    const answers = Object.entries(told.responses).map(([status, response]) =>
      [element("code", {}, status), element("div", {}, prose(response.description), ...contents(response.content, schemas))]);
    inside.append(element("h3", {}, "Responses"), rows(answers));
    if (method === "get") inside.append(element("h3", {}, "Try it"), tryIt(path, list));
  }, { once: true });
  return whole;
}

async function show() {
  const state = document.getElementById("state");
  const response = await fetch("/openapi.json");
  if (!response.ok) throw new Error(`the gateway responded with ${response.status}`);
  const told = await response.json();
  document.getElementById("version").textContent = told.info.version;
  const groups = new Map(told.tags.map((tag) => [tag.name, []]));
  for (const [path, item] of Object.entries(told.paths)) {
    for (const method of methods.filter((method) => item[method])) groups.get(item[method].tags[0]).push([path, method, item[method]]);
  }
  const main = document.getElementById("operations");
  const nav = document.getElementById("contents");
  state.replaceWith(...told.info.description.split("\n\n").map((paragraph) => element("p", {}, prose(paragraph))));
  const found = [];
  for (const [name, operations] of groups) {
    const heading = element("h2", {}, name);
    const links = element("div", {}, element("h2", {}, name));
    main.append(heading);
    nav.append(links);
    for (const [path, method, one] of operations) {
      const whole = operation(path, method, one, told.components.schemas);
      const link = element("a", { href: `#${one.operationId}` }, element("span", { class: `method ${method}` }, method.toUpperCase()), element("span", { class: "path" }, path));
      link.addEventListener("click", () => { whole.open = true; });
      main.append(whole);
      links.append(link);
      found.push({ words: `${method} ${path} ${one.summary} ${name}`.toLowerCase(), whole, link, heading, links });
    }
  }
  document.getElementById("filter").addEventListener("input", (event) => {
    const wanted = event.target.value.toLowerCase().split(/\s+/);
    for (const one of found) one.whole.hidden = one.link.hidden = !wanted.every((word) => one.words.includes(word));
    for (const one of found) one.heading.hidden = one.links.hidden = !found.some((other) => other.heading === one.heading && !other.whole.hidden);
  });
  const named = document.getElementById(location.hash.slice(1));
  if (named?.matches("details")) { named.open = true; named.scrollIntoView(); }
}

show().catch((error) => { document.getElementById("state").textContent = `The document cannot be loaded: ${error.message}`; });
