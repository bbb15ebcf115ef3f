//! `toolbooth-fixture`: the era-adaptive MCP test server, over HTTP or stdio.

use std::{net::SocketAddr, process::ExitCode};
use tokio::net::TcpListener;
use toolbooth_testkit::fixture::{
    ServedEras, http, stdio,
    world::{FixtureOptions, World},
};

const USAGE: &str =
    "usage: toolbooth-fixture (--listen ADDRESS | --stdio) [--era modern|legacy|both] [--page N]";

struct Arguments {
    listen: Option<SocketAddr>,
    options: FixtureOptions,
}

fn read_arguments() -> Result<Arguments, String> {
    let mut listen = None;
    let mut stdio = None;
    let mut options = FixtureOptions { eras: ServedEras::Both, page: None };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("`{argument}` needs a value"));
        match argument.as_str() {
            "--listen" => listen = Some(value()?.parse().map_err(|error| format!("--listen: {error}"))?),
            "--stdio" => stdio = Some(()),
            "--era" => options.eras = value()?.parse()?,
            "--page" => options.page = Some(value()?.parse().map_err(|error| format!("--page: {error}"))?),
            other => return Err(format!("`{other}` is unknown")),
        }
    }
    match (listen, stdio) {
        (Some(_), Some(())) | (None, None) => Err("give either --listen or --stdio".to_owned()),
        (listen, _) => Ok(Arguments { listen, options }),
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = match read_arguments() {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("error: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> std::io::Result<()> {
    let world = World::new(arguments.options);
    let Some(address) = arguments.listen else { return stdio::serve(world).await };
    let listener = TcpListener::bind(address).await?;
    println!("listening http://{}/mcp", listener.local_addr()?);
    http::serve(listener, world).await;
    Ok(())
}
