//! Opens pages in the user's browser.

use std::process::Stdio;

/// Opens a page in the user's browser, if there is one. Its URL is printed in any case.
pub fn open_page(url: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let has_screen = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    if !cfg!(target_os = "macos") && !has_screen {
        return;
    }
    let mut command = tokio::process::Command::new(program);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _ = command.spawn();
}
