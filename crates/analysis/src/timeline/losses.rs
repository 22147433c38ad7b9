//! Where lost events hide what threads did.

use unhitch_model::{Time, Trace, Window};

/// Where events are missing. Only a loss on its own CPU hides a running thread; a loss on any CPU
/// hides every other thread, because it may have run there.
pub(super) struct Losses {
    any_cpu: Vec<Window>,
    by_cpu: Vec<Vec<Window>>,
}

impl Losses {
    pub fn new(trace: &Trace) -> Self {
        let mut by_cpu: Vec<Vec<Window>> = Vec::new();
        for loss in &trace.losses {
            let cpu = usize::from(loss.cpu);
            if by_cpu.len() <= cpu {
                by_cpu.resize(cpu + 1, Vec::new());
            }
            by_cpu[cpu].push(loss.window);
        }
        Self {
            any_cpu: Window::disjoint(trace.losses.iter().map(|loss| loss.window).collect()),
            by_cpu: by_cpu.into_iter().map(Window::disjoint).collect(),
        }
    }

    /// The losses inside `window`, clipped to it, in order and disjoint.
    pub fn hiding(
        &self,
        own_cpu: Option<u16>,
        window: Window,
    ) -> impl Iterator<Item = Window> + '_ {
        let list = match own_cpu {
            Some(cpu) => self.by_cpu.get(usize::from(cpu)).map_or(&[][..], Vec::as_slice),
            None => &self.any_cpu,
        };
        let first = list.partition_point(|loss| loss.end <= window.start);
        list[first..]
            .iter()
            .take_while(move |loss| loss.start < window.end)
            .map(move |loss| loss.intersect(window))
            .filter(|w| !w.is_empty())
    }

    /// True if events of `cpu` may be missing after `from` and until `to`, both included.
    pub fn touch(&self, cpu: u16, from: Time, to: Time) -> bool {
        let list = self.by_cpu.get(usize::from(cpu)).map_or(&[][..], Vec::as_slice);
        let first = list.partition_point(|loss| loss.end <= from);
        list.get(first).is_some_and(|loss| loss.start <= to)
    }
}
