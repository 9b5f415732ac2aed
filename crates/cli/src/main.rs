//! `ferrule`: the command. One arm per subcommand; each lives in a module of its own.
#![forbid(unsafe_code)]

mod answer;
mod apply;
mod capture;
mod card;
mod check;
mod configuration;
mod demo;
mod desk;
mod init;
mod interrupt;
mod lab;
mod live;
mod machine;
mod manual;
mod merge;
mod netns;
mod output;
mod overhead;
mod paint;
mod process;
mod rekey;
mod results;
mod route;
mod run;
mod sa;
mod search;
mod shard;
mod show;
mod softhsm;
mod state;
mod study;
mod test;
mod token;
mod trace;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use ferrule_daemon::opening;
use std::process::ExitCode;

/// Private traffic, encrypted, across an MPLS provider.
#[derive(Parser)]
#[command(name = "ferrule", version, about, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Apply(apply::ApplyArgs),
    Capture(capture::CaptureArgs),
    Card(card::CardArgs),
    Check(check::CheckArgs),
    Completions(manual::CompletionsArgs),
    Config(configuration::ConfigArgs),
    Demo(demo::DemoArgs),
    #[command(hide = true)]
    DemoBench(demo::companion::BenchArgs),
    #[command(hide = true)]
    DemoHost(demo::host::HostArgs),
    Init(init::InitArgs),
    Lab(lab::LabArgs),
    Man(manual::ManArgs),
    Merge(merge::MergeArgs),
    Overhead(overhead::OverheadArgs),
    Rekey(rekey::RekeyArgs),
    Route(route::RouteArgs),
    Run(run::RunArgs),
    Sa(sa::SaArgs),
    Show(show::ShowArgs),
    State(state::StateArgs),
    Study(study::StudyArgs),
    #[command(hide = true)]
    StudyApps(study::applications::clients::AppsArgs),
    #[command(hide = true)]
    StudyBench(study::trials::BenchArgs),
    #[command(hide = true)]
    StudyToken(study::token::TokenArgs),
    Stop(apply::StopArgs),
    Test(Box<test::TestArgs>),
    Token(token::TokenArgs),
    Trace(trace::TraceArgs),
    #[command(name = opening::COMMAND, hide = true)]
    Companion(live::CompanionArgs),
}

fn main() -> ExitCode {
    output::settled(command())
}

/// Runs the command that was typed.
fn command() -> ExitCode {
    let parsed = Cli::command().try_get_matches().and_then(|matches| {
        answer::as_told(&matches);
        Cli::from_arg_matches(&matches)
    });
    let cli = match parsed {
        Ok(cli) => cli,
        Err(e) => return answer::misused(&e),
    };
    match cli.command {
        Command::Apply(args) => args.run(),
        Command::Capture(args) => args.run(),
        Command::Card(args) => args.run(),
        Command::Check(args) => args.run(),
        Command::Completions(args) => args.run(),
        Command::Config(args) => args.run(),
        Command::Demo(args) => args.run(),
        Command::DemoBench(args) => args.run(),
        Command::DemoHost(args) => args.run(),
        Command::Init(args) => args.run(),
        Command::Lab(args) => args.run(),
        Command::Man(args) => args.run(),
        Command::Merge(args) => args.run(),
        Command::Overhead(args) => args.run(),
        Command::Rekey(args) => args.run(),
        Command::Route(args) => args.run(),
        Command::Run(args) => args.run(),
        Command::Sa(args) => args.run(),
        Command::Show(args) => args.run(),
        Command::State(args) => args.run(),
        Command::Study(args) => args.run(),
        Command::StudyApps(args) => args.run(),
        Command::StudyBench(args) => args.run(),
        Command::StudyToken(args) => args.run(),
        Command::Stop(args) => args.run(),
        Command::Test(args) => args.run(),
        Command::Token(args) => args.run(),
        Command::Trace(args) => args.run(),
        Command::Companion(args) => args.run(),
    }
}
