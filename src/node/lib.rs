//! Configuration, services and commands of the `plasma` binary.

mod authorization;
mod cli;
mod cometbft;
mod commands;
mod config;
mod context;
mod devnet;
mod ethereum;
mod home;
mod init;
mod metrics;
mod output;
mod process;
mod signals;
mod start;
mod time;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use clap::error::{ContextKind, ErrorKind};

use crate::cli::{Cli, Command, Devnet};
use crate::context::Context;
use crate::ethereum::block_on;
use crate::home::Home;
use crate::output::{CommandError, CommandResult, Exit, Output};

/// Runs the command line of this process.
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return ExitCode::from(refuse_arguments(&error) as u8),
    };
    start_logging(&cli);
    let mut output = Output::new(cli.json, cli.quiet);
    match dispatch(&cli, &mut output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output.error(&error);
            ExitCode::from(error.exit as u8)
        }
    }
}

/// Answers arguments that are no command; help and version are results.
fn refuse_arguments(error: &clap::Error) -> Exit {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let _ = error.print();
            return Exit::Done;
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            return Exit::Usage;
        }
        _ => {}
    }
    let similar =
        [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::SuggestedValue];
    let similar = similar
        .into_iter()
        .find_map(|kind| error.get(kind))
        .map(|similar| format!("did you mean `{similar}`?"));
    let text = error.to_string();
    let help = similar.unwrap_or_else(|| help_of(&text));
    // The first paragraph says what is wrong; it may list the arguments that are missing.
    let paragraph = text.split("\n\n").next().unwrap_or_default();
    let message = paragraph.trim_start_matches("error: ").trim_end();
    // Nothing was parsed, so the form of the answer is looked for by hand.
    let json = std::env::args_os().any(|argument| argument == "--json");
    Output::new(json, false).error(&CommandError::usage(message, help));
    Exit::Usage
}

/// The help of the command whose usage an error shows.
fn help_of(text: &str) -> String {
    let usage = text.lines().find_map(|line| line.strip_prefix("Usage: ")).unwrap_or("plasma");
    let command = usage.split(' ').take_while(|word| !word.starts_with(['-', '[', '<']));
    format!("{} --help", command.collect::<Vec<_>>().join(" "))
}

/// Services log at info; commands print their own results.
fn start_logging(cli: &Cli) {
    let service = matches!(cli.command, Command::Start | Command::Relayer | Command::Watch(_));
    let default = if service { "info" } else { "off" };
    let filter = cli.log.as_deref().unwrap_or(default);
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::new(filter))
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
}

/// `--home`, else `~/.plasma`.
fn home(cli: &Cli) -> Home {
    let user = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".plasma");
    Home(cli.home.clone().unwrap_or_else(user))
}

fn dispatch(cli: &Cli, output: &mut Output) -> CommandResult<()> {
    let home = home(cli);
    match &cli.command {
        Command::Devnet(devnet) => dispatch_devnet(home, devnet, output),
        Command::Demo { name } => commands::demo::run(&Context::load(home)?, *name, output),
        Command::Init { genesis } => init::run(&home, genesis.as_deref(), output),
        Command::Start => start::run(&home, &config::load(&home.0)?, output),
        Command::Relayer => block_on(commands::relayer::run(&Context::load(home)?, output))?,
        Command::Store(args) => commands::store::run(&home, args, output),
        Command::Wallet(command) => commands::wallet::run(&Context::load(home)?, command, output),
        Command::Watch(args) => {
            block_on(commands::watch::run(&Context::load(home)?, args, output))?
        }
        command => block_on(dispatch_async(&Context::load(home)?, command, output))?,
    }
}

fn dispatch_devnet(home: Home, command: &Devnet, output: &mut Output) -> CommandResult<()> {
    let at = |dir: &Option<PathBuf>| dir.clone().unwrap_or_else(|| home.0.clone());
    match command {
        Devnet::Up(args) => commands::devnet::up(&home, args, output),
        Devnet::Down { dir } => commands::devnet::down(&at(dir), output),
        Devnet::Status { dir } => commands::devnet::status(&at(dir), output),
        Devnet::Reset { dir, yes } => commands::devnet::reset(&at(dir), *yes, output),
        Devnet::Warp { time } => {
            let now = block_on(commands::devnet::warp(&Context::load(home)?, *time))??;
            let text = format!("on Ethereum it is now {}", time::rfc3339(now));
            output.result(text, serde_json::json!({"seconds": time, "ethereum_time": now}));
            Ok(())
        }
    }
}

async fn dispatch_async(
    context: &Context,
    command: &Command,
    output: &Output,
) -> CommandResult<()> {
    match command {
        Command::Doctor => commands::doctor::run(context, output).await,
        Command::Deposit(args) => commands::deposit::run(context, args, output).await,
        Command::Coin(command) => commands::coin::run(context, command, output).await,
        Command::Transfer(args) => commands::transfer::run(context, args, output).await,
        Command::Block(command) => commands::block::run(context, command, output).await,
        Command::Exit(command) => commands::exit::run(context, command, output).await,
        Command::Proof(command) => commands::proof::run(context, command, output).await,
        // The others were dispatched before.
        Command::Devnet(_)
        | Command::Demo { .. }
        | Command::Init { .. }
        | Command::Start
        | Command::Relayer
        | Command::Store(_)
        | Command::Watch(_)
        | Command::Wallet(_) => Ok(()),
    }
}
