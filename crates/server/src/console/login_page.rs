//! The page that tells a user why a sign-in failed.

use super::{FILES, headers};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use toolbooth_core::fault::Problem;

/// A page with the problem. `console` is the relative path of the console.
pub(super) fn failed(status: StatusCode, problem: &Problem, console: &'static str) -> Response {
    let mut response = (status, text(problem, console)).into_response();
    headers::set_page(&mut response);
    response
}

fn text(problem: &Problem, console: &str) -> String {
    let is_style = |path: &str| path.starts_with("assets/index-") && path.ends_with(".css");
    let style = FILES.iter().map(|file| file.path).find(|path| is_style(path));
    let style = style
        .map_or_else(String::new, |path| format!("    <link rel=\"stylesheet\" href=\"{console}{path}\">\n"));
    let hint = problem
        .hint
        .as_deref()
        .map_or_else(String::new, |hint| format!("          <p>{}</p>\n", escaped(hint)));
    format!(
        "<!doctype html>\n\
         <html lang=\"en\">\n  \
         <head>\n    \
         <meta charset=\"utf-8\">\n    \
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n    \
         <meta name=\"color-scheme\" content=\"light dark\">\n    \
         <title>Sign-in failed · Toolbooth</title>\n    \
         <link rel=\"icon\" href=\"{console}favicon.svg\" type=\"image/svg+xml\">\n\
         {style}  \
         </head>\n  \
         <body>\n    \
         <main class=\"center\">\n      \
         <div class=\"card sign-in\">\n        \
         <h1>You are not signed in</h1>\n        \
         <div class=\"note bad\" role=\"alert\"><div>\n          \
         <p class=\"strong\">{message}</p>\n\
         {hint}          \
         <p class=\"small\"><code>{code}</code></p>\n        \
         </div></div>\n        \
         <a class=\"button primary\" href=\"{console}\">Back to the console</a>\n      \
         </div>\n    \
         </main>\n  \
         </body>\n\
         </html>\n",
        message = escaped(&problem.message),
        code = escaped(problem.code),
    )
}

/// A text as HTML. Names in backticks become code, as in the console.
fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len() + 32);
    let mut parts = text.split('`').enumerate().peekable();
    while let Some((number, part)) = parts.next() {
        // A last backtick without a partner is shown as it is.
        let is_code = number % 2 == 1 && parts.peek().is_some();
        if number % 2 == 1 && !is_code {
            html.push('`');
        }
        html.push_str(if is_code { "<code>" } else { "" });
        for character in part.chars() {
            match character {
                '&' => html.push_str("&amp;"),
                '<' => html.push_str("&lt;"),
                '>' => html.push_str("&gt;"),
                '"' => html.push_str("&quot;"),
                '\'' => html.push_str("&#39;"),
                other => html.push(other),
            }
        }
        html.push_str(if is_code { "</code>" } else { "" });
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolbooth_core::fault::Blame;

    #[test]
    fn texts_cannot_become_markup() {
        let cases = [
            ("set `auth.mode` to `jwt`", "set <code>auth.mode</code> to <code>jwt</code>"),
            ("a ` alone", "a ` alone"),
            ("`<script>`&\"'", "<code>&lt;script&gt;</code>&amp;&quot;&#39;"),
        ];
        for (text, expected) in cases {
            assert_eq!(escaped(text), expected);
        }
    }

    #[test]
    fn the_page_has_the_problem_and_the_way_back() {
        let problem = Problem {
            code: "auth.login-over",
            blame: Blame::Caller,
            message: "this sign-in has expired <b>".into(),
            hint: Some("sign in again".into()),
        };
        let page = text(&problem, "../");
        for expected in [
            "expired &lt;b&gt;",
            "sign in again",
            "<code>auth.login-over</code>",
            "href=\"../\"",
            "href=\"../assets/index-",
        ] {
            assert!(page.contains(expected), "{expected}: {page}");
        }
        assert!(!page.contains("<script") && !page.contains("://"), "{page}");
    }
}
