//! `toolbooth skills`: lists, shows, checks and runs skills.

use super::approvals::run_id;
use super::call::{self, CallArguments};
use super::{bundled_hint, job_views, on_gateway, print_entries};
use crate::embedded_gateway::ServerSelection;
use crate::exit::Exit;
use crate::failure::CommandResult;
use crate::gateway_handle::{GatewayHandle, read};
use crate::global_options::GlobalOptions;
use crate::prompter::Prompter;
use crate::remote_gateway::segment;
use crate::render::{self, Paint, Table, TableCell, Tone, ago, line};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use toolbooth_core::manifest::skill_tool_name;

/// Arguments of `toolbooth skills`.
#[derive(Debug, Args)]
#[command(after_help = "\
Skills are folders with a SKILL.md in skills/ beside the configuration, or in ~/.config/toolbooth/skills.
For example:
  toolbooth skills list
  toolbooth skills run brief topic='sea ice'")]
pub struct SkillsArguments {
    #[command(subcommand)]
    action: Option<SkillsAction>,
}

#[derive(Debug, Subcommand)]
enum SkillsAction {
    /// List skills (the default); --persona restricts to a persona.
    List,
    /// Show a skill: its instructions, tools and steps.
    Show {
        /// Name of the skill.
        name: String,
    },
    /// Check whether the tools and capabilities that skills need are there; exits with 1 if not.
    Check {
        /// Names of skills; all by default.
        names: Vec<String>,
    },
    /// Run the plan of a skill; exits with 4 if a step waits for approval.
    Run {
        /// Name of the skill.
        name: String,
        /// Arguments; the skill's parameters set their types.
        #[arg(value_name = "KEY=VALUE", conflicts_with = "args")]
        pairs: Vec<String>,
        /// Arguments as JSON, @FILE, or - for standard input.
        #[arg(long, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
        args: Option<String>,
    },
    /// List your runs of a skill that waited for approval, or show one of them.
    Runs {
        /// Name of the skill.
        name: String,
        /// Id of the run, or 6 or more characters of its beginning or its end.
        run: Option<String>,
    },
}

impl SkillsArguments {
    /// Whether arguments come from standard input.
    pub fn reads_input(&self) -> bool {
        matches!(&self.action, Some(SkillsAction::Run { args: Some(args), .. }) if args == "-")
    }
}

/// Runs `toolbooth skills`.
pub fn run(global: &GlobalOptions, arguments: SkillsArguments) -> CommandResult {
    // A run needs the store, like a call: plans, consents and the audit are in it.
    let needs_store = matches!(arguments.action, Some(SkillsAction::Run { .. } | SkillsAction::Runs { .. }));
    let work = async |gateway: &GatewayHandle| {
        gateway.connect(ServerSelection::AutoConnected).await;
        within(gateway, global, arguments, &Prompter::here()).await
    };
    match needs_store {
        true => on_gateway(GatewayHandle::open_persistent(global), work),
        false => on_gateway(GatewayHandle::open(global), work),
    }
}

/// Runs the command on an open gateway.
pub async fn within(
    gateway: &GatewayHandle,
    global: &GlobalOptions,
    arguments: SkillsArguments,
    prompter: &Prompter,
) -> CommandResult {
    match arguments.action.unwrap_or(SkillsAction::List) {
        SkillsAction::List => list(gateway, global).await,
        SkillsAction::Show { name } => show(gateway, global, &name).await,
        SkillsAction::Check { names } => check(gateway, global, names).await,
        SkillsAction::Run { name, pairs, args } => {
            // An unknown skill, and one without a plan, are reported as such and not as a missing tool.
            let skill = gateway.get(&format!("/skills/{}", segment(&name))).await?;
            if skill["plan"].is_null() {
                let path = format!("/skills/{}/run", segment(&name));
                gateway.post("running the skill", &path, Some("{}".into())).await?;
            }
            let what = CallArguments::of_words(skill_tool_name(&name), pairs, args);
            call::run_skill(gateway, global, &what, &skill, prompter).await
        }
        SkillsAction::Runs { name, run: None } => {
            let answer = gateway.get(&format!("/skills/{}/runs", segment(&name))).await?;
            print_entries(global, &answer, "runs", "No run of the skill waited for approval.\n", run_table);
            Ok(Exit::Ok)
        }
        SkillsAction::Runs { name, run: Some(run) } => {
            let skill = format!("/skills/{}", segment(&name));
            let run = run_id(gateway, &skill, &run).await?;
            let run = gateway.get(&format!("{skill}/runs/{}", segment(&run))).await?;
            match global.json {
                true => render::print_json(&run),
                false => render::print(&run_page(&run)),
            }
            Ok(Exit::Ok)
        }
    }
}

/// A table of runs.
fn run_table(runs: &[Value]) -> String {
    let mut table = Table::new(&["RUN", "STATUS", "STARTED", "ERROR"]);
    for run in runs {
        let text = |key: &str| run[key].as_str().unwrap_or_default();
        table.row([
            text("id").into(),
            text("status").into(),
            ago(run["created_at"].as_i64().unwrap_or(0)).into(),
            run["error"]["message"].as_str().unwrap_or_default().into(),
        ]);
    }
    table.draw(Paint::stdout())
}

/// The page of one run.
fn run_page(run: &Value) -> String {
    let why = run["error"]["message"].as_str().map(|why| format!("{}\n", line(why))).unwrap_or_default();
    job_views::run_page(run) + &why
}

async fn list(gateway: &GatewayHandle, global: &GlobalOptions) -> CommandResult {
    let answer = gateway.get("/skills").await?;
    let if_empty = "There are no skills. They are folders with a SKILL.md in ~/.config/toolbooth/skills, or in skills/ beside the \
         configuration.\n";
    print_entries(global, &answer, "skills", if_empty, table);
    Ok(Exit::Ok)
}

fn table(skills: &[Value]) -> String {
    let mut table = Table::new(&["NAME", "FOR", "PLAN", "READY", "DESCRIPTION"]);
    for skill in skills {
        let text = |key: &str| skill[key].as_str().unwrap_or_default();
        let about = if text("summary").is_empty() { text("description") } else { text("summary") };
        let ready = match skill["ready"] == true {
            true => TableCell::toned("yes", Tone::Good),
            false => TableCell::toned("no", Tone::Warn),
        };
        table.row([
            TableCell::toned(text("name"), Tone::Strong),
            skill["persona"].as_str().unwrap_or("all").into(),
            steps(skill)
                .map_or_else(|| "-".to_owned(), |steps| render::count(steps.len(), "step"))
                .as_str()
                .into(),
            ready,
            line(about).as_str().into(),
        ]);
    }
    table.draw(Paint::stdout())
}

/// The steps of a skill's plan.
fn steps(skill: &Value) -> Option<&Vec<Value>> {
    let plan = &skill["plan"];
    plan.as_array().or_else(|| plan["steps"].as_array())
}

async fn show(gateway: &GatewayHandle, global: &GlobalOptions, name: &str) -> CommandResult {
    let skill = gateway.get(&format!("/skills/{}", segment(name))).await?;
    if global.json {
        render::print_json(&skill);
        return Ok(Exit::Ok);
    }
    let paint = Paint::stdout();
    let text = |key: &str| skill[key].as_str().map(line).filter(|text| !text.is_empty());
    let names = |key: &str| {
        let names = skill[key].as_array().into_iter().flatten().filter_map(Value::as_str).map(line);
        Some(names.collect::<Vec<_>>().join(", ")).filter(|names| !names.is_empty())
    };
    let written = |key: &str| skill[key].is_object().then(|| line(&skill[key].to_string()));
    let mut out = paint.tone(Tone::Strong, &text("name").unwrap_or_default());
    out.push_str(&text("version").map(|version| format!(" {version}")).unwrap_or_default());
    out.push('\n');
    if let Some(about) = text("description").or_else(|| text("summary")) {
        out.push_str(&format!("{}\n", render::wrap(&about, 0)));
    }
    let facts = [
        ("for", text("persona")),
        ("tool", text("tool")),
        ("needs tools", names("required_tools")),
        ("needs capabilities", names("required_capabilities")),
        ("safety", text("safety_notes")),
        ("category", text("category")),
        ("tags", names("capability_tags")),
        ("collaboration", written("collaboration")),
        ("files", names("files")),
        ("missing tools", names("missing_tools")),
        ("missing capabilities", names("missing_capabilities")),
        ("defined in", text("source")),
    ];
    out.push('\n');
    for (label, fact) in facts {
        if let Some(fact) = fact {
            out.push_str(&format!("{label}: {fact}\n"));
        }
    }
    for (number, step) in steps(&skill).into_iter().flatten().enumerate() {
        let id = step["id"].as_str().map_or_else(|| format!("step{}", number + 1), line);
        let tool = step["tool"].as_str().map(line).unwrap_or_default();
        let arguments = if step["inputs"].is_object() { &step["inputs"] } else { &step["arguments"] };
        let arguments = if arguments.is_object() { line(&arguments.to_string()) } else { String::new() };
        out.push_str(&format!("step {id}: {tool} {arguments}\n"));
    }
    out.push_str(&format!("\n{}\n", render::plain(skill["instruction_prompt"].as_str().unwrap_or_default())));
    render::print(&out);
    Ok(Exit::Ok)
}

async fn check(gateway: &GatewayHandle, global: &GlobalOptions, names: Vec<String>) -> CommandResult {
    let names = match names.is_empty() {
        false => names,
        true => {
            let all = gateway.get("/skills").await?;
            let all = all["skills"].as_array().into_iter().flatten();
            all.filter_map(|skill| skill["name"].as_str().map(str::to_owned)).collect()
        }
    };
    let mut checks = Vec::new();
    for name in &names {
        let path = format!("/skills/{}/validate", segment(name));
        checks.push(read(&gateway.post("checking the skill", &path, None).await?)?);
    }
    let failed = checks.iter().filter(|check| check["valid"] != true).count();
    if global.json {
        render::print_json(&json!({ "failed": failed, "checks": checks }));
    } else {
        let paint = Paint::stdout();
        let mut out = String::new();
        let mut sentences = String::new();
        for check in &checks {
            let problems: Vec<&Value> = check["problems"].as_array().into_iter().flatten().collect();
            let verdict = match problems.is_empty() {
                true => paint.tone(Tone::Good, "ready"),
                false => paint.tone(Tone::Bad, "not ready"),
            };
            out.push_str(&format!("{}: {verdict}\n", check["skill"].as_str().map(line).unwrap_or_default()));
            for problem in problems {
                let text = |key: &str| problem[key].as_str().map(line).unwrap_or_default();
                out.push_str(&format!("  {} [{}]\n", text("message"), text("code")));
                sentences.push_str(&text("message"));
            }
        }
        if let Some(hint) = bundled_hint::of_sentence(gateway, &sentences).await {
            out.push_str(&format!("hint: {}\n", render::wrap(&hint, 6)));
        }
        if checks.is_empty() {
            out.push_str("There are no skills.\n");
        }
        render::print(&out);
    }
    Ok(if failed > 0 { Exit::Failed } else { Exit::Ok })
}
