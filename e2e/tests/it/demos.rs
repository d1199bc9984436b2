//! Every demo ends with the honest owner paid, and says so in at most 15 lines.

use std::time::{Duration, Instant};

use plasma_e2e::{Network, run};

const DEMOS: [&str; 5] =
    ["happy", "spent-coin", "double-spend", "invalid-history", "withheld-block"];
const LINES_MAX: usize = 15;
/// Twice what a demo takes on an idle machine: these two cores run a network besides.
const TIME_MAX: Duration = Duration::from_secs(80);

#[test]
fn the_honest_owner_is_paid_in_every_demo() {
    let network = Network::start(&[]);
    let home = network.dir().to_str().unwrap();
    for name in DEMOS {
        let started = Instant::now();
        let answer = run(&["--home", home, "demo", name], "");
        let took = started.elapsed();
        eprintln!("demo {name}: {took:.1?}");
        assert_eq!(answer.code, 0, "demo {name}: {answer:?}");
        assert!(answer.stdout.trim_end().ends_with("paid") || name == "happy", "{answer:?}");
        let lines = answer.stdout.lines().chain(answer.stderr.lines());
        assert!(lines.count() <= LINES_MAX, "demo {name}: {answer:?}");
        assert!(took < TIME_MAX, "demo {name} took {took:?}");
        assert!(!network.dir().join("demo").exists(), "demo {name} leaves its network behind");
    }
    // Twice on the same network: other coins, the same end.
    let again = network.ok("demo spent-coin");
    assert_eq!(again["paid"], true, "{again}");
    network.assert_same_app_hashes();
}
