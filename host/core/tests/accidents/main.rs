//! Whatever happens, in whatever order: what must never happen does not, and in the end MAAS holds
//! what is wanted.

#[path = "../world/mod.rs"]
mod world;

mod guard;
mod happenings;
mod run;

use proptest::prelude::*;

use happenings::{company, happenings};
use run::Run;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("CASES").map_or(120, |c| c.parse().expect("a number")),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_accident_leaks_a_machine_or_touches_a_foreign_one(
        deployed: bool,
        company in company(),
        story in happenings(),
    ) {
        let mut run = Run::new();
        run.decided_by(company);
        if deployed {
            run.all_do_their_part(6);
        }
        for happening in &story {
            run.happens(happening);
        }
        run.calms_down();
        run.check_what_is_held();
        run.check_that_nothing_more_is_written();
    }
}
