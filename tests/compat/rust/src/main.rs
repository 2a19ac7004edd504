// rdkafka (Rust) as a column of the compatibility card: every scenario in one process.
//
// Usage: compat BOOTSTRAP PREFIX FEATURE... Prints one JSON line for each feature, in order. A scenario panics where
// something is not as it must be.

mod admin;
mod groups;
mod reading;
mod records;
mod run;

use std::collections::HashMap;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Mutex;

use run::Run;

pub type Scenario = Box<dyn Fn(&Run)>;
pub type Scenarios = HashMap<&'static str, Scenario>;

static PROBLEM: Mutex<String> = Mutex::new(String::new());

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let (bootstrap, prefix) = (&arguments[1], &arguments[2]);
    let mut scenarios = Scenarios::new();
    records::add(&mut scenarios);
    reading::add(&mut scenarios);
    groups::add(&mut scenarios);
    admin::add(&mut scenarios);
    panic::set_hook(Box::new(|info| *PROBLEM.lock().unwrap() = info.to_string().replace('\n', " ")));
    for feature in &arguments[3..] {
        let detail = attempt(&scenarios, bootstrap, prefix, feature);
        let result = if detail.is_empty() { "ok" } else { "FAIL" };
        println!("{}", serde_json::json!({"scenario": feature, "result": result, "detail": detail}));
    }
    // Threads of clients that a failed scenario left open do not hold the program.
    std::process::exit(0);
}

/// Empty, or what went wrong and where.
fn attempt(scenarios: &Scenarios, bootstrap: &str, prefix: &str, feature: &str) -> String {
    let Some(scenario) = scenarios.get(feature) else {
        return "the program has no such scenario".into();
    };
    let run = Run::new(bootstrap, format!("{prefix}.{feature}"));
    match panic::catch_unwind(AssertUnwindSafe(|| scenario(&run))) {
        Ok(()) => String::new(),
        Err(_) => PROBLEM.lock().unwrap().clone(),
    }
}
