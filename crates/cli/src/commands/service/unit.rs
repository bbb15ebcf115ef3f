//! The text of a service file.

use super::manager::{LABEL, ServiceManager};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The line by which a file is recognised as written by this program.
pub(super) const MARKER: &str =
    "Written by `toolbooth service install`; `toolbooth service uninstall` removes it.";

/// Everything that a service file depends on.
#[derive(Debug, Clone)]
pub(super) struct ServiceUnit {
    /// The absolute path of this program.
    pub program: String,
    /// The options that select the configuration.
    pub arguments: Vec<String>,
    /// The home folder, in which the gateway runs.
    pub home: String,
    /// The folders in which the commands of servers are found.
    pub path: String,
    /// More variables.
    pub variables: BTreeMap<String, String>,
    /// The log file, for managers without a log of their own.
    pub log: String,
    /// How long the gateway may take to stop.
    pub stop_seconds: u64,
}

impl ServiceUnit {
    /// The text of the file. The error says which value cannot be written.
    pub fn text(&self, manager: ServiceManager) -> Result<String, String> {
        let all = self.arguments.iter().chain([&self.program, &self.home, &self.path, &self.log]);
        let all = all.chain(self.variables.values());
        for value in all {
            if value.chars().any(char::is_control) {
                return Err(format!("{value:?} contains a control character"));
            }
        }
        Ok(match manager {
            ServiceManager::Systemd => self.systemd(),
            ServiceManager::Launchd => self.launchd(),
        })
    }

    fn command(&self) -> impl Iterator<Item = &str> {
        let options = self.arguments.iter().map(String::as_str);
        std::iter::once(self.program.as_str()).chain(options).chain(std::iter::once("serve"))
    }

    fn systemd(&self) -> String {
        // In a command line `$` starts a variable; in an assignment it does not.
        let command: Vec<String> = self.command().map(|word| quoted(word).replace('$', "$$")).collect();
        // A configuration error needs a change of the files: exit code 2 is not tried again.
        format!(
            "# {MARKER}\n\
             [Unit]\n\
             Description=Toolbooth, a gateway for the tools of AI agents\n\
             StartLimitIntervalSec=120\n\
             StartLimitBurst=5\n\
             \n\
             [Service]\n\
             ExecStart={}\n\
             ExecReload=/bin/kill -HUP $MAINPID\n\
             WorkingDirectory={}\n\
             {}\
             Restart=on-failure\n\
             RestartSec=5\n\
             RestartPreventExitStatus=2\n\
             KillMode=mixed\n\
             TimeoutStopSec={}\n\
             \n\
             [Install]\n\
             WantedBy=default.target\n",
            command.join(" "),
            self.home.replace('%', "%%"),
            self.variables()
                .map(|(name, value)| format!("Environment={}\n", quoted(&format!("{name}={value}"))))
                .collect::<String>(),
            self.stop_seconds,
        )
    }

    /// The variables of the service.
    fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        let others = self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        std::iter::once(("PATH", self.path.as_str())).chain(others)
    }

    fn launchd(&self) -> String {
        let mut words = String::new();
        for word in self.command() {
            let _ = writeln!(words, "    <string>{}</string>", escaped(word));
        }
        let mut variables = String::new();
        for (name, value) in self.variables() {
            let _ = writeln!(variables, "    <key>{name}</key>\n    <string>{}</string>", escaped(value));
        }
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <!-- {MARKER} -->\n\
             <!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n\
             <plist version=\"1.0\">\n\
             <dict>\n\
             \x20 <key>Label</key>\n\
             \x20 <string>{LABEL}</string>\n\
             \x20 <key>ProgramArguments</key>\n\
             \x20 <array>\n\
             {words}\
             \x20 </array>\n\
             \x20 <key>WorkingDirectory</key>\n\
             \x20 <string>{}</string>\n\
             \x20 <key>EnvironmentVariables</key>\n\
             \x20 <dict>\n\
             {variables}\
             \x20 </dict>\n\
             \x20 <key>RunAtLoad</key>\n\
             \x20 <true/>\n\
             \x20 <key>KeepAlive</key>\n\
             \x20 <dict>\n\
             \x20   <key>SuccessfulExit</key>\n\
             \x20   <false/>\n\
             \x20 </dict>\n\
             \x20 <key>ThrottleInterval</key>\n\
             \x20 <integer>10</integer>\n\
             \x20 <key>ExitTimeOut</key>\n\
             \x20 <integer>{}</integer>\n\
             \x20 <key>StandardOutPath</key>\n\
             \x20 <string>{}</string>\n\
             \x20 <key>StandardErrorPath</key>\n\
             \x20 <string>{}</string>\n\
             </dict>\n\
             </plist>\n",
            escaped(&self.home),
            self.stop_seconds,
            escaped(&self.log),
            escaped(&self.log),
        )
    }
}

/// Quotes a word of a systemd unit; `%` would start a specifier.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%"))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn unit() -> ServiceUnit {
        ServiceUnit {
            program: "/opt/tool booth/toolbooth".into(),
            arguments: vec!["--config".into(), "/home/ann/50% \"$x\" & <y>.toml".into()],
            home: "/home/ann".into(),
            path: "/usr/bin:/home/ann/my bin".into(),
            variables: [("XDG_CONFIG_HOME".to_owned(), "/home/ann/my <config>".to_owned())].into(),
            log: "/home/ann/gateway.log".into(),
            stop_seconds: 25,
        }
    }

    #[test]
    fn values_are_quoted_for_systemd() {
        expect![[r#"
            # Written by `toolbooth service install`; `toolbooth service uninstall` removes it.
            [Unit]
            Description=Toolbooth, a gateway for the tools of AI agents
            StartLimitIntervalSec=120
            StartLimitBurst=5

            [Service]
            ExecStart="/opt/tool booth/toolbooth" --config "/home/ann/50%% \"$$x\" & <y>.toml" serve
            ExecReload=/bin/kill -HUP $MAINPID
            WorkingDirectory=/home/ann
            Environment="PATH=/usr/bin:/home/ann/my bin"
            Environment="XDG_CONFIG_HOME=/home/ann/my <config>"
            Restart=on-failure
            RestartSec=5
            RestartPreventExitStatus=2
            KillMode=mixed
            TimeoutStopSec=25

            [Install]
            WantedBy=default.target
        "#]]
        .assert_eq(&unit().text(ServiceManager::Systemd).expect("a text"));
    }

    #[test]
    fn values_are_escaped_for_launchd() {
        let text = unit().text(ServiceManager::Launchd).expect("a text");
        assert!(text.contains("    <string>/home/ann/50% \"$x\" &amp; &lt;y&gt;.toml</string>\n"), "{text}");
        assert!(text.contains("    <string>serve</string>\n  </array>\n"), "{text}");
        assert!(text.contains("    <string>/home/ann/my &lt;config&gt;</string>\n  </dict>\n"), "{text}");
        assert!(text.contains(MARKER), "{text}");
    }

    #[test]
    fn a_line_break_cannot_add_a_line() {
        let broken = ServiceUnit { path: "/bin\nExecStart=/bin/evil".into(), ..unit() };
        for manager in [ServiceManager::Systemd, ServiceManager::Launchd] {
            assert!(broken.text(manager).is_err());
        }
    }
}
