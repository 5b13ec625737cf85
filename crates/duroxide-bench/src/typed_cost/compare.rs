//! Both styles side by side, and the verdict.

use super::callgrind::instructions_each;
use super::counted::{Counted, Orders};
use super::programs::{Program, Style};
use crate::floor::Failure;
use crate::floor::report::Report;
use crate::size::Size;

/// What a typed program may take of the text-based one's instructions.
const INSTRUCTIONS: f64 = 1.03;
/// Statements that a node makes now and then whatever it runs may fall into either run: so many for each unit of work.
const BACKGROUND: f64 = 0.1;

/// What one style costs.
struct Cost {
    instructions: f64,
    counted: Counted,
}

/// Whether typed programs take no more than text-based ones.
pub(crate) async fn run(size: Size) -> Result<bool, Failure> {
    let mut report = Report::default();
    let directory = size.directory()?;
    for program in Program::ALL {
        let what = match program {
            Program::Hello => "hello world, each",
            Program::Chain => "a chain of activities, each step",
        };
        report.section(&format!("{what} (of {})", size.count));
        let cost = async |style| {
            let orders = Orders { style, program, count: size.count };
            let counted = orders.run_on_sqlite(directory.path()).await?;
            Ok::<_, Failure>(Cost { instructions: instructions_each(orders, directory.path())?, counted })
        };
        let (text, typed) = (cost(Style::Text).await?, cost(Style::Typed).await?);
        for (style, cost) in [(Style::Text, &text), (Style::Typed, &typed)] {
            let name = style.name();
            report
                .figure(&format!("{name}: instructions, memory store"), format!("{:.0}", cost.instructions));
            report.figure(&format!("{name}: statements, SQLite"), format!("{:.2}", cost.counted.statements));
            report.figure(&format!("{name}: events of an instance"), cost.counted.events);
        }
        report.at_most("instructions, typed / text", typed.instructions / text.instructions, INSTRUCTIONS);
        let more = typed.counted.statements - text.counted.statements;
        report.at_most("statements, typed - text", more, BACKGROUND);
        let more = typed.counted.events as f64 - text.counted.events as f64;
        report.at_most("events, typed - text", more, 0.0);
    }
    Ok(report.finish())
}
