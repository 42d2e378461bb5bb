use spindles_sim::{Fixed, Options, run};
fn main() {
    let args: Vec<u64> = std::env::args()
        .skip(1)
        .map(|a| a.parse().unwrap())
        .collect();
    let start = std::time::Instant::now();
    let mut fails = std::collections::BTreeMap::<&str, Vec<(u64, String)>>::new();
    let mut struck = std::collections::BTreeMap::<&str, u64>::new();
    let mut requests = 0;
    for seed in args[0]..args[1] {
        let options = Options::swarm(seed, &Fixed::default());
        let story = args[1] == args[0] + 1;
        let r = std::panic::catch_unwind(|| run(&options, story));
        match r {
            Ok(o) => {
                for l in &o.story {
                    println!("{l}");
                }
                requests += o.requests;
                for (k, v) in o.struck {
                    *struck.entry(k).or_default() += v;
                }
                if let Some(f) = o.failure {
                    fails
                        .entry(f.checker)
                        .or_default()
                        .push((seed, format!("{} {}", o.tree, f)));
                }
            }
            Err(_) => {
                fails
                    .entry("panic")
                    .or_default()
                    .push((seed, options.tree.to_string()));
                if story {
                    println!("{options:#?}");
                }
            }
        }
    }
    for (k, v) in &fails {
        println!("{k}: {}", v.len());
        for (s, t) in v.iter().take(8) {
            println!("   {s}: {t}");
        }
    }
    println!("{struck:?} requests {requests} {:?}", start.elapsed());
}
