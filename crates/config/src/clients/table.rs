//! The table of clients: where each keeps its servers, and how it writes an entry.

use super::name_lists::{ListEffect, ListForm, NameList, list_in, own_list};
use super::place::{BaseFolder, ClientFilePlace, env_or_home, home, user_config};
use super::spec::{ClientId, ClientSpec, EntryForm, OffSwitch, ServerLayout, TimeoutUnit, VariableForm};
use crate::parse::Syntax;

/// The entry that most clients write; the rows of the table change what differs.
const COMMON: ClientSpec = ClientSpec {
    id: ClientId::Cursor,
    name: "",
    title: "",
    syntax: Syntax::Json,
    files: &[],
    project_files: &[],
    folder: None,
    section: "mcpServers",
    layout: ServerLayout::Map,
    form: EntryForm::PLAIN,
    variables: VariableForm::Literal,
    timeout: TimeoutUnit::Seconds,
    off: OffSwitch::Nowhere,
    lists: &[],
    apply: "Restart it.",
    note: "",
};

/// The settings of Claude Code, which have rules for servers.
const CLAUDE_SETTINGS: ClientFilePlace = env_or_home("CLAUDE_CONFIG_DIR", ".claude", "settings.json");

/// The lists of Claude Code.
const CLAUDE_LISTS: &[NameList] = &[
    own_list(&["disabledMcpServers"], ListEffect::Disables, ListForm::Names),
    own_list(&["projects", "*", "disabledMcpServers"], ListEffect::Disables, ListForm::Names),
    list_in(CLAUDE_SETTINGS, &["allowedMcpServers"], ListEffect::Allows, ListForm::Rules),
    list_in(CLAUDE_SETTINGS, &["deniedMcpServers"], ListEffect::Disables, ListForm::Rules),
];

/// The lists in which Claude Code keeps the servers of a project's `.mcp.json` that the user has turned off. They are in its
/// own file and in its settings.
pub(crate) static PROJECT_FILE_LISTS: [NameList; 3] = [
    own_list(&["disabledMcpjsonServers"], ListEffect::Disables, ListForm::Names),
    own_list(&["projects", "*", "disabledMcpjsonServers"], ListEffect::Disables, ListForm::Names),
    own_list(&["projects", "*", "disabledMcpServers"], ListEffect::Disables, ListForm::Names),
];

/// The lists of Gemini CLI; the last two are those of its older versions.
const GEMINI_LISTS: &[NameList] = &[
    own_list(&["mcp", "allowed"], ListEffect::Allows, ListForm::Names),
    own_list(&["mcp", "excluded"], ListEffect::Disables, ListForm::Names),
    list_in(
        env_or_home("GEMINI_CLI_HOME", "", ".gemini/mcp-server-enablement.json"),
        &[],
        ListEffect::Disables,
        ListForm::Switches,
    ),
    own_list(&["allowMCPServers"], ListEffect::Allows, ListForm::Names),
    own_list(&["excludeMCPServers"], ListEffect::Disables, ListForm::Names),
];

/// The lists of Qwen Code; the last two are those of its older versions.
const QWEN_LISTS: &[NameList] = &[
    own_list(&["mcp", "allowed"], ListEffect::Allows, ListForm::Patterns),
    own_list(&["mcp", "excluded"], ListEffect::Disables, ListForm::Patterns),
    own_list(&["allowMCPServers"], ListEffect::Allows, ListForm::Patterns),
    own_list(&["excludeMCPServers"], ListEffect::Disables, ListForm::Patterns),
];

/// The list of Copilot CLI.
const COPILOT_LISTS: &[NameList] = &[list_in(
    env_or_home("COPILOT_HOME", ".copilot", "settings.json"),
    &["disabledMcpServers"],
    ListEffect::Disables,
    ListForm::Names,
)];

/// Every client, in the order in which they are listed.
pub static CLIENTS: [ClientSpec; 20] = [
    ClientSpec {
        id: ClientId::ClaudeDesktop,
        name: "claude-desktop",
        title: "Claude Desktop",
        files: &[
            ClientFilePlace::new(BaseFolder::Config, "Claude/claude_desktop_config.json"),
            ClientFilePlace::new(BaseFolder::MacSupport, "Claude/claude_desktop_config.json"),
            ClientFilePlace::new(BaseFolder::Roaming, "Claude/claude_desktop_config.json"),
        ],
        form: EntryForm { http: None, ..EntryForm::PLAIN },
        apply: "Quit it from its menu and start it again.",
        note: "Its file supports local commands only; remote connectors of the app are not in the file.",
        ..COMMON
    },
    ClientSpec {
        id: ClientId::ClaudeCode,
        name: "claude-code",
        title: "Claude Code",
        files: &[env_or_home("CLAUDE_CONFIG_DIR", "", ".claude.json")],
        form: EntryForm { stdio_type: Some("stdio"), http: Some(("url", Some("http"))), ..EntryForm::PLAIN },
        variables: VariableForm::Braces,
        timeout: TimeoutUnit::Milliseconds,
        apply: "Start a new session.",
        note: "Servers of single projects (`projects` in the same file) are imported too and run in their project's folder. A `.mcp.json` in a project is not changed, because it is shared with others. Rules of an administrator (managed settings) are neither read nor changed: if they do not allow the gateway, Claude Code ignores it.",
        lists: CLAUDE_LISTS,
        ..COMMON
    },
    ClientSpec {
        id: ClientId::Cursor,
        name: "cursor",
        title: "Cursor",
        files: &[home(".cursor/mcp.json")],
        project_files: &[".cursor/mcp.json"],
        variables: VariableForm::Braces,
        note: "The variables of a file that an entry names in `envFile` move to `imported.env`.",
        off: OffSwitch::Outside,
        ..COMMON
    },
    ClientSpec {
        id: ClientId::Vscode,
        name: "vscode",
        title: "VS Code",
        files: &[
            ClientFilePlace::new(BaseFolder::Env("VSCODE_PORTABLE"), "user-data/User/mcp.json"),
            ClientFilePlace::new(BaseFolder::Config, "Code/User/mcp.json"),
            ClientFilePlace::new(BaseFolder::MacSupport, "Code/User/mcp.json"),
            ClientFilePlace::new(BaseFolder::Roaming, "Code/User/mcp.json"),
            ClientFilePlace::new(BaseFolder::Config, "Code - Insiders/User/mcp.json"),
            ClientFilePlace::new(BaseFolder::MacSupport, "Code - Insiders/User/mcp.json"),
            home(".vscode-server/data/User/mcp.json"),
        ],
        project_files: &[".vscode/mcp.json"],
        section: "servers",
        form: EntryForm { stdio_type: Some("stdio"), http: Some(("url", Some("http"))), ..EntryForm::PLAIN },
        variables: VariableForm::Braces,
        apply: "Reload its window.",
        note: "Values that VS Code prompts for (`${input:…}`) are not in the file: set the variables that `up` names. The variables of a file that an entry names in `envFile` move to `imported.env`. A policy of an administrator can allow only some servers; it is not changed.",
        off: OffSwitch::Outside,
        ..COMMON
    },
    ClientSpec {
        id: ClientId::Codex,
        name: "codex",
        title: "Codex",
        syntax: Syntax::Toml,
        files: &[env_or_home("CODEX_HOME", ".codex", "config.toml")],
        project_files: &[".codex/config.toml"],
        section: "mcp_servers",
        apply: "Start a new session.",
        off: OffSwitch::Entry("enabled = false"),
        ..COMMON
    },
    ClientSpec {
        id: ClientId::Gemini,
        name: "gemini",
        title: "Gemini CLI",
        files: &[env_or_home("GEMINI_CLI_HOME", "", ".gemini/settings.json")],
        project_files: &[".gemini/settings.json"],
        form: EntryForm { http: Some(("url", Some("http"))), ..EntryForm::PLAIN },
        variables: VariableForm::Dollar,
        timeout: TimeoutUnit::Milliseconds,
        apply: "Start a new session.",
        lists: GEMINI_LISTS,
        ..COMMON
    },
    ClientSpec {
        id: ClientId::Windsurf,
        name: "windsurf",
        title: "Windsurf",
        files: &[home(".codeium/windsurf/mcp_config.json"), home(".codeium/mcp_config.json")],
        form: EntryForm { http: Some(("serverUrl", None)), ..EntryForm::PLAIN },
        variables: VariableForm::Braces,
        apply: "Press the refresh button of its MCP list.",
        off: OffSwitch::Entry("\"disabled\": true"),
        ..COMMON
    },
    ClientSpec {
        id: ClientId::Zed,
        name: "zed",
        title: "Zed",
        files: &[
            user_config("zed/settings.json"),
            ClientFilePlace::new(BaseFolder::Roaming, "Zed/settings.json"),
        ],
        project_files: &[".zed/settings.json"],
        section: "context_servers",
        apply: "It reads the file at once.",
        note: "Servers that are Zed extensions stay in Zed.",
        off: OffSwitch::Entry("\"enabled\": false"),
        ..COMMON
    },
    ClientSpec {
        id: ClientId::Opencode,
        name: "opencode",
        title: "opencode",
        files: &[
            ClientFilePlace::new(BaseFolder::Env("OPENCODE_CONFIG"), ""),
            ClientFilePlace::new(BaseFolder::Env("OPENCODE_CONFIG_DIR"), "opencode.json"),
            ClientFilePlace::new(BaseFolder::Env("OPENCODE_CONFIG_DIR"), "opencode.jsonc"),
            user_config("opencode/opencode.json"),
            user_config("opencode/opencode.jsonc"),
        ],
        project_files: &["opencode.json", "opencode.jsonc"],
        section: "mcp",
        form: EntryForm {
            stdio_type: Some("local"),
            http: Some(("url", Some("remote"))),
            command_list: true,
            env_field: "environment",
            extra: &[("enabled", "true")],
            ..EntryForm::PLAIN
        },
        variables: VariableForm::CurlyEnv,
        timeout: TimeoutUnit::Milliseconds,
        apply: "Start a new session.",
        off: OffSwitch::Entry("\"enabled\": false"),
        ..COMMON
    },
    ClientSpec {
        id: ClientId::Cline,
        name: "cline",
        title: "Cline",
        files: &[
            ClientFilePlace::new(BaseFolder::Env("CLINE_MCP_SETTINGS_PATH"), ""),
            ClientFilePlace::new(BaseFolder::Env("CLINE_DATA_DIR"), "settings/cline_mcp_settings.json"),
            ClientFilePlace::new(BaseFolder::Env("CLINE_DIR"), "data/settings/cline_mcp_settings.json"),
            home(".cline/data/settings/cline_mcp_settings.json"),
            ClientFilePlace::new(
                BaseFolder::Config,
                "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
            ),
            ClientFilePlace::new(
                BaseFolder::MacSupport,
                "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
            ),
        ],
        form: EntryForm { http: Some(("url", Some("streamableHttp"))), ..EntryForm::PLAIN },
        variables: VariableForm::Braces,
        apply: "It reads the file at once.",
        note: "The file of older versions, in the storage of VS Code, is imported and connected too.",
        off: OffSwitch::Entry("\"disabled\": true"),
        ..COMMON
    },
    ClientSpec {
        id: ClientId::Roo,
        name: "roo",
        title: "Roo Code",
        files: &[
            ClientFilePlace::new(
                BaseFolder::Config,
                "Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
            ),
            ClientFilePlace::new(
                BaseFolder::MacSupport,
                "Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
            ),
            ClientFilePlace::new(
                BaseFolder::Roaming,
                "Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
            ),
        ],
        project_files: &[".roo/mcp.json"],
        form: EntryForm { http: Some(("url", Some("streamable-http"))), ..EntryForm::PLAIN },
        variables: VariableForm::Braces,
        apply: "It reads the file at once.",
        off: OffSwitch::Entry("\"disabled\": true"),
        ..COMMON
    },
    ClientSpec {
        id: ClientId::Copilot,
        name: "copilot",
        title: "Copilot CLI",
        files: &[env_or_home("COPILOT_HOME", ".copilot", "mcp-config.json")],
        project_files: &[".github/mcp.json"],
        form: EntryForm {
            stdio_type: Some("local"),
            http: Some(("url", Some("http"))),
            extra: &[("tools", "[\"*\"]")],
            ..EntryForm::PLAIN
        },
        variables: VariableForm::Dollar,
        timeout: TimeoutUnit::Milliseconds,
        apply: "Start a new session.",
        lists: COPILOT_LISTS,
        ..COMMON
    },
    ClientSpec {
        id: ClientId::Continue,
        name: "continue",
        title: "Continue",
        syntax: Syntax::Yaml,
        files: &[env_or_home("CONTINUE_GLOBAL_DIR", ".continue", "config.yaml")],
        folder: Some(env_or_home("CONTINUE_GLOBAL_DIR", ".continue", "mcpServers")),
        layout: ServerLayout::NamedList,
        form: EntryForm {
            name_field: true,
            http: Some(("url", Some("streamable-http"))),
            ..EntryForm::PLAIN
        },
        variables: VariableForm::Secrets,
        timeout: TimeoutUnit::Milliseconds,
        apply: "It reads the file at once.",
        note: "The entries in files of the folder are imported too, and `up` takes them out of these files.",
        ..COMMON
    },
    ClientSpec {
        id: ClientId::Goose,
        name: "goose",
        title: "goose",
        syntax: Syntax::Yaml,
        files: &[
            ClientFilePlace::new(BaseFolder::Env("GOOSE_PATH_ROOT"), "config/config.yaml"),
            ClientFilePlace::new(BaseFolder::Config, "goose/config.yaml"),
            home(".config/goose/config.yaml"),
            ClientFilePlace::new(BaseFolder::Roaming, "Block/goose/config/config.yaml"),
        ],
        section: "extensions",
        form: EntryForm {
            stdio_type: Some("stdio"),
            http: Some(("uri", Some("streamable_http"))),
            command_field: "cmd",
            env_field: "envs",
            name_field: true,
            extra: &[("enabled", "true"), ("timeout", "300")],
            ..EntryForm::PLAIN
        },
        apply: "Start a new session.",
        note: "Extensions that are built into goose stay in goose.",
        off: OffSwitch::Entry("enabled: false"),
        ..COMMON
    },
    ClientSpec {
        id: ClientId::LmStudio,
        name: "lm-studio",
        title: "LM Studio",
        files: &[home(".lmstudio/mcp.json")],
        apply: "It reads the file at once.",
        off: OffSwitch::Outside,
        ..COMMON
    },
    ClientSpec {
        id: ClientId::AmazonQ,
        name: "amazon-q",
        title: "Amazon Q",
        files: &[home(".aws/amazonq/mcp.json")],
        project_files: &[".amazonq/mcp.json"],
        form: EntryForm { http: Some(("url", Some("http"))), ..EntryForm::PLAIN },
        timeout: TimeoutUnit::Milliseconds,
        apply: "Start a new session.",
        note: "An agent loads this file only if it sets `useLegacyMcpJson`.",
        off: OffSwitch::Entry("\"disabled\": true"),
        ..COMMON
    },
    ClientSpec {
        id: ClientId::Kiro,
        name: "kiro",
        title: "Kiro",
        files: &[home(".kiro/settings/mcp.json")],
        project_files: &[".kiro/settings/mcp.json"],
        variables: VariableForm::Braces,
        apply: "It reads the file at once.",
        off: OffSwitch::Entry("\"disabled\": true"),
        ..COMMON
    },
    ClientSpec {
        id: ClientId::Warp,
        name: "warp",
        title: "Warp",
        files: &[home(".warp/.mcp.json")],
        project_files: &[".warp/.mcp.json"],
        note: "Servers that were pasted into Warp's settings are not in a file; add the gateway there by hand.",
        off: OffSwitch::Outside,
        ..COMMON
    },
    ClientSpec {
        id: ClientId::JetBrains,
        name: "jetbrains",
        title: "JetBrains (Junie)",
        files: &[home(".junie/mcp/mcp.json")],
        project_files: &[".junie/mcp/mcp.json"],
        form: EntryForm { http: None, ..EntryForm::PLAIN },
        apply: "Restart the IDE.",
        note: "AI Assistant keeps its servers in the IDE's settings: paste the entry there (Settings, Tools, AI Assistant, MCP).",
        ..COMMON
    },
    ClientSpec {
        id: ClientId::Qwen,
        name: "qwen",
        title: "Qwen Code",
        files: &[env_or_home("QWEN_HOME", ".qwen", "settings.json")],
        project_files: &[".qwen/settings.json"],
        form: EntryForm { http: Some(("httpUrl", None)), ..EntryForm::PLAIN },
        variables: VariableForm::Dollar,
        timeout: TimeoutUnit::Milliseconds,
        apply: "Start a new session.",
        lists: QWEN_LISTS,
        ..COMMON
    },
];
