//! Programs are polled where tokio has neither timers nor I/O nor anything that runs a task.

use std::sync::{Arc, Mutex, PoisonError};

use duroxide_core::{Guards, PollGuard};
use tokio::runtime::{Builder, Runtime};

use super::program_log::ProgramLog;
use super::{ForeignWakes, RuntimeOptions};

/// What tokio panics with where a timer or a socket is used without its driver. Nothing else tells these panics from those
/// of the program.
const WITHOUT_DRIVER: [(&str, &str); 3] = [
    ("timers are disabled", "used a timer of tokio"),
    ("IO is disabled", "used a socket or other I/O of tokio"),
    ("there is no reactor running", "used tokio"),
];

/// What turns are run with on a node.
pub(super) fn guards_of(options: &RuntimeOptions) -> Guards {
    let polls: Option<Arc<dyn PollGuard>> = match options.foreign_wakes {
        ForeignWakes::Ignore => None,
        ForeignWakes::Fail => Some(Arc::new(BareTokio::default())),
    };
    Guards { polls, scope: Some(Arc::new(ProgramLog)), keep_events: options.verify_replay.is_on() }
}

/// Enters a runtime of tokio without drivers around every poll.
#[derive(Default)]
struct BareTokio {
    /// Runtimes that no poll uses at the moment. There are as many as there were polls at a time.
    idle: Mutex<Vec<Runtime>>,
}

impl BareTokio {
    fn take(&self) -> Option<Runtime> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.or_else(|| Builder::new_current_thread().build().ok())
    }

    fn put_back(&self, runtime: Runtime) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(runtime);
    }
}

impl PollGuard for BareTokio {
    fn poll(&self, poll: &mut dyn FnMut()) -> Option<String> {
        let Some(runtime) = self.take() else {
            // The system has no room for one: the program is polled as it would be without the guard.
            poll();
            return None;
        };
        {
            let _entered = runtime.enter();
            poll();
        }
        if runtime.metrics().num_alive_tasks() == 0 {
            self.put_back(runtime);
            return None;
        }
        // Nothing runs its tasks; they go with it.
        runtime.shutdown_background();
        Some("spawned a task of tokio".to_string())
    }

    fn fault_of_panic(&self, text: &str) -> Option<String> {
        let known = WITHOUT_DRIVER.iter().find(|(words, _)| text.contains(words));
        known.map(|(_, fault)| (*fault).to_string())
    }
}

impl Drop for BareTokio {
    fn drop(&mut self) {
        let idle = std::mem::take(&mut *self.idle.lock().unwrap_or_else(PoisonError::into_inner));
        // The last user may be a task of another runtime, where a plain drop panics.
        idle.into_iter().for_each(Runtime::shutdown_background);
    }
}
