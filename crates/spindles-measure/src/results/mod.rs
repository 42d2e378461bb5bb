//! The results that an analysis holds, as plain data. The rules that find them are in the modules
//! above.

mod cell;
mod choice;
mod comparison;
mod finding;
mod overall;
mod predicted;
mod quantity;
mod singles;
mod verdicts;

pub use cell::{Cell, Latency, P99_9_COUNT_MIN, Repetition};
pub use choice::{Choice, Pair, Place, Ranking, Share, Standing, Weighted};
pub use comparison::{Comparison, Verdict, difference_of, factor_of, percent_of};
pub use finding::Finding;
pub use overall::{LeftOut, OverallScope, Reason};
pub use predicted::{Correlation, Deciding, Help};
pub use quantity::{Overload, Quantity, Response};
pub use singles::{AgainstSingles, Singles};
pub use verdicts::{Bottleneck, CacheVerdict, CellVerdicts, Grade, Look, Tried};
