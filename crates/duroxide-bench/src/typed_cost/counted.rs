//! One program in one style on one store, and what it counts.

use std::sync::Arc;

use duroxide::providers::memory::MemoryProvider;
use duroxide::providers::sqlite::SqliteProvider;

use super::programs::{Node, Program, Style};
use crate::floor::Failure;

/// Before anything is counted: caches fill, statements are prepared.
const WARM_UP: usize = 20;

/// What callgrind's process is told on its command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Orders {
    pub(crate) style: Style,
    pub(crate) program: Program,
    /// Instances of hello world, or steps of the chain.
    pub(crate) count: usize,
}

/// What a program left and asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Counted {
    /// Events of one instance: those of a hello world, or of the whole chain.
    pub(crate) events: usize,
    /// Statements for one hello world, or one step of the chain.
    pub(crate) statements: f64,
}

impl Orders {
    pub(crate) fn arguments(&self) -> [String; 3] {
        [self.style.name().to_string(), self.program.name().to_string(), self.count.to_string()]
    }

    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let arguments: Vec<String> = arguments.collect();
        let [style, program, count] = arguments.as_slice() else {
            return Err("it takes a style, a program and a count".to_string());
        };
        let style = Style::ALL.into_iter().find(|known| known.name() == style);
        let program = Program::ALL.into_iter().find(|known| known.name() == program);
        Ok(Self {
            style: style.ok_or("the styles are text and typed")?,
            program: program.ok_or("the programs are hello and chain")?,
            count: count.parse().map_err(|_| format!("'{count}' is no number"))?,
        })
    }

    async fn run(&self, node: &Node, prefix: &str, count: usize) -> Result<(), Failure> {
        match self.program {
            Program::Hello => {
                for n in 0..count {
                    node.hello(&format!("{prefix}{n}")).await?;
                }
                Ok(())
            }
            Program::Chain => node.chain(&format!("{prefix}0"), count).await,
        }
    }

    /// Runs the program on a file of SQLite, and counts.
    pub(crate) async fn run_on_sqlite(&self, directory: &std::path::Path) -> Result<Counted, Failure> {
        let file = directory.join(format!("{}-{}.db", self.style.name(), self.program.name()));
        let store = Arc::new(SqliteProvider::new(&format!("sqlite:{}", file.display()), None).await?);
        let node = Node::start(self.style, store.clone()).await?;
        self.run(&node, "warm", WARM_UP).await?;
        let before = store.statistics().statements;
        self.run(&node, "counted", self.count).await?;
        let statements = (store.statistics().statements - before) as f64 / self.count as f64;
        let events = node.client().read_execution_history("counted0", 1).await?.len();
        node.shutdown().await;
        Ok(Counted { events, statements })
    }
}

/// Runs the program in memory: what callgrind looks at.
pub(crate) async fn run_alone(orders: Orders) -> Result<bool, Failure> {
    let node = Node::start(orders.style, Arc::new(MemoryProvider::new())).await?;
    orders.run(&node, "counted", orders.count).await?;
    node.shutdown().await;
    Ok(true)
}
