//! Runs an installed program as the systemd units and the container file do, and calls a first tool with it.

use super::trial::{RunningPackage, call_echo};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// The state directory of the system unit, and the volume of the container.
const STATE_FOLDERS: [&str; 2] = ["/var/lib/toolbooth", "/data"];

/// The command that creates a token.
const TOKEN_COMMAND: [&str; 5] = ["tokens", "create", "--user", "ann", "--json"];

/// How a unit or a container file starts the program.
#[derive(Debug, PartialEq, Eq)]
struct ServiceStart {
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
}

/// Checks the systemd units and the container file with an installed program.
pub fn check(root: &Path, program: &Path, folder: &Path) -> Result<()> {
    let read = |path: &str| std::fs::read_to_string(root.join(path)).with_context(|| path.to_owned());
    let starts = [
        ("system unit", of_unit(&read("packaging/systemd/system/toolbooth.service")?)?),
        ("user unit", of_unit(&read("packaging/systemd/user/toolbooth.service")?)?),
        ("container", of_container_file(&read("packaging/Containerfile")?)?),
    ];
    for (name, start) in starts {
        let begun = Instant::now();
        let home = folder.join(name.replace(' ', "-"));
        first_call(program, &start, &home).with_context(|| format!("the {name} does not work"))?;
        println!("{name}: first result after {:.1} s", begun.elapsed().as_secs_f64());
    }
    Ok(())
}

/// Starts the program in a folder that takes the place of its state directory, and calls a tool.
fn first_call(program: &Path, start: &ServiceStart, home: &Path) -> Result<()> {
    std::fs::create_dir_all(home)?;
    let command = |arguments: &[String]| {
        let mut command = Command::new(program);
        command.args(arguments).env_clear().env("HOME", home).env("PATH", "/usr/bin:/bin").current_dir(home);
        for (name, value) in &start.variables {
            let in_home = STATE_FOLDERS.iter().find_map(|folder| value.strip_prefix(folder));
            command.env(name, in_home.map_or(value.clone(), |rest| format!("{}{rest}", home.display())));
        }
        command
    };
    // Any free port, in place of the usual one.
    let mut arguments: Vec<String> = start.arguments.iter().map(|word| word.replace(":8665", ":0")).collect();
    if !arguments.iter().any(|word| word == "--listen") {
        arguments.extend(["--listen", "127.0.0.1:0"].map(str::to_owned));
    }
    let (_gateway, address) = RunningPackage::start(&mut command(&arguments))?;
    let token_mode = ("TOOLBOOTH_AUTH_MODE".to_owned(), "token".to_owned());
    let token = match start.variables.contains(&token_mode) {
        true => Some(new_token(&mut command(&TOKEN_COMMAND.map(str::to_owned)))?),
        false => None,
    };
    call_echo(&address, token.as_deref())
}

/// Creates a token as the operator of the gateway.
fn new_token(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{command:?} ended with {}: {text}", output.status);
    let created: Value = serde_json::from_str(&text).context("the new token is not JSON")?;
    Ok(created["token"].as_str().context("no token was created")?.to_owned())
}

fn of_unit(text: &str) -> Result<ServiceStart> {
    let values = |key: &str| text.lines().filter_map(|line| line.strip_prefix(key)).collect::<Vec<&str>>();
    let command = values("ExecStart=").first().copied().context("the unit has no ExecStart")?;
    let mut words = command.split_whitespace();
    ensure!(words.next() == Some("toolbooth"), "the unit starts another program: {command}");
    let variables = values("Environment=").into_iter().flat_map(str::split_whitespace);
    let variables = variables.filter_map(|pair| pair.split_once('='));
    // A value with a specifier, such as %h for the home folder, is not for this check.
    let variables = variables.filter(|(_, value)| !value.contains('%'));
    Ok(ServiceStart {
        arguments: words.map(str::to_owned).collect(),
        variables: variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
    })
}

fn of_container_file(text: &str) -> Result<ServiceStart> {
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
    let program: Vec<String> = serde_json::from_str(value("ENTRYPOINT ").context("no ENTRYPOINT")?)?;
    ensure!(program == ["toolbooth"], "the container starts another program: {program:?}");
    let variables = value("ENV ").unwrap_or_default().split_whitespace();
    let variables = variables.filter_map(|pair| pair.split_once('='));
    Ok(ServiceStart {
        arguments: serde_json::from_str(value("CMD ").context("no CMD")?)?,
        variables: variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_variables_are_read_from_the_files() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let system =
            of_unit(include_str!("../../../packaging/systemd/system/toolbooth.service")).expect("a unit");
        assert_eq!(system.arguments, ["--no-project", "serve"]);
        let folder = "/var/lib/toolbooth";
        assert_eq!(system.variables, [pair("HOME", folder), pair("TOOLBOOTH_DATA_DIR", folder)]);
        let user =
            of_unit(include_str!("../../../packaging/systemd/user/toolbooth.service")).expect("a unit");
        assert_eq!((user.arguments, user.variables), (system.arguments, Vec::new()));
        let container = of_container_file(include_str!("../../../packaging/Containerfile")).expect("a file");
        assert_eq!(container.arguments, ["--no-project", "serve", "--listen", "0.0.0.0:8665"]);
        assert!(container.variables.contains(&pair("TOOLBOOTH_AUTH_MODE", "token")), "{container:?}");
    }
}
