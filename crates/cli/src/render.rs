//! How things look on a terminal: faults first.

use toolbooth_core::fault::Problem;

/// A fault as people read it.
pub fn problem(problem: &Problem) -> String {
    let mut text = format!("error[{}]: {}\n", problem.code, plain(&problem.message));
    if let Some(hint) = &problem.hint {
        text.push_str(&format!("\nhint: {}\n", plain(hint)));
    }
    text
}

/// Text from outside, made harmless: it cannot move the cursor or change colours.
pub fn plain(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\t' => c.to_string(),
            c if c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') => {
                c.escape_default().to_string()
            }
            c => c.to_string(),
        })
        .collect()
}
