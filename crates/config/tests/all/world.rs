//! A test machine in a temporary folder, with files to load and short paths in the output.

use std::path::{Path, PathBuf};
use toolbooth_config::{Finding, LoadFailure, LoadedConfig, Sources, load, render};

pub struct World {
    root: tempfile::TempDir,
    pub sources: Sources,
}

impl World {
    /// Creates files: `etc/…` is the system folder, `user/…` the user's folder, `work/…` the project.
    pub fn new(files: &[(&str, &str)]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let base = root.path().canonicalize().unwrap();
        for folder in ["etc", "home", "user/toolbooth", "work"] {
            std::fs::create_dir_all(base.join(folder)).unwrap();
        }
        let sources = Sources {
            cwd: base.join("work"),
            home: Some(base.join("home")),
            xdg_config_home: Some(base.join("user")),
            system_dir: base.join("etc"),
            ..Sources::default()
        };
        let world = Self { root, sources };
        for (path, text) in files {
            world.write(path, text);
        }
        world
    }

    /// Creates one file that is named with `--config`.
    pub fn config(name: &str, text: &str) -> Self {
        let mut world = Self::new(&[(name, text)]);
        world.sources.config_files.push(world.path(name));
        world
    }

    pub fn path(&self, path: &str) -> PathBuf {
        let base = self.root.path().canonicalize().unwrap();
        match path.strip_prefix("user/") {
            Some(rest) => base.join("user/toolbooth").join(rest),
            None => base.join(path),
        }
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub fn env(mut self, variables: &[(&str, &str)]) -> Self {
        self.sources.env.extend(variables.iter().map(|(name, value)| ((*name).into(), (*value).into())));
        self
    }

    pub fn load(&self) -> Result<LoadedConfig, LoadFailure> {
        load(&self.sources)
    }

    /// Removes the temporary folder from paths in a text.
    pub fn short(&self, text: &str) -> String {
        let base = self.root.path().canonicalize().unwrap();
        text.replace(&format!("{}/", base.display()), "").replace(&base.display().to_string(), "")
    }

    /// All findings, rendered.
    pub fn report(&self) -> String {
        let findings: Vec<Finding> = match self.load() {
            Ok(loaded) => loaded.findings,
            Err(failure) => failure.findings,
        };
        let drawn: Vec<String> = findings.iter().map(render).collect();
        self.short(&drawn.join("\n"))
    }

    /// One line per server: name, state, transport.
    pub fn servers(&self) -> String {
        let loaded = self.load().unwrap();
        let mut out = String::new();
        for server in &loaded.servers {
            let reach =
                server.state.entry().map(|entry| format!(" {:?}", entry.transport)).unwrap_or_default();
            out.push_str(&format!("{} {}{reach}\n", server.name, server.state.as_str()));
        }
        self.short(&out)
    }
}

pub fn file_names(paths: &[PathBuf]) -> Vec<String> {
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    paths.iter().map(|path| name(path)).collect()
}
