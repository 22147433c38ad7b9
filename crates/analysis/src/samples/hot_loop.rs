//! Finds the loop in which a function spends its samples, by the backward branches of its machine
//! code.
//!
//! Input: the decoded instructions in order of address, each with its jump target and its number of
//! samples. *Why not just "from the target to the branch":* compilers put rare blocks behind the
//! end of the function and jump back from there without any loop, and they enter loops in the
//! middle. So a loop is a set of instructions that can be reached again, and a backward branch only
//! shows where to look for one.

/// One machine instruction and its samples. All offsets count from the same origin, whatever it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Instruction {
    /// Its offset.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u32,
    /// The target of its jump, if the code contains it; calls do not count.
    pub target: Option<u64>,
    /// True if the next instruction may run after it: false for jumps, returns, traps.
    pub falls_through: bool,
    /// True for a jump through a register or a table.
    pub jumps_anywhere: bool,
    /// The number of samples.
    pub samples: u64,
}

/// A loop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HotLoop {
    /// Its instructions, as ascending indices.
    pub body: Vec<usize>,
    /// The samples in it.
    pub samples: u64,
}

/// Minimum share of an outer loop's samples for an inner loop to be reported instead.
const INNER_SHARE: (u64, u64) = (9, 10);

/// The innermost loop that covers most samples of `code`, if one has at least half of them. `code`
/// is in order of address and begins at the function's entry.
pub fn hot_loop(code: &[Instruction]) -> Option<HotLoop> {
    let all: u64 = code.iter().map(|instruction| instruction.samples).sum();
    let loops = loops(code);
    let most = loops
        .iter()
        .map(|found| found.samples)
        .max()
        .filter(|&most| most > 0 && most * 2 >= all)?;
    let covers = |found: &HotLoop| {
        found.samples * 2 >= all
            && u128::from(found.samples) * u128::from(INNER_SHARE.1)
                >= u128::from(most) * u128::from(INNER_SHARE.0)
    };
    loops
        .into_iter()
        .filter(covers)
        .min_by(|a, b| (a.body.len(), b.samples, &a.body).cmp(&(b.body.len(), a.samples, &b.body)))
}

/// Maximum nesting of loops.
const MAX_NESTING: usize = 32;

/// All loops: sets of instructions that can all reach each other; then the same inside each set,
/// without its entry instructions.
fn loops(code: &[Instruction]) -> Vec<HotLoop> {
    let flow = Flow::new(code);
    let mut loops = Vec::new();
    let mut open = vec![(vec![true; code.len()], 0)];
    while let Some((mut nodes, nesting)) = open.pop() {
        for &target in &flow.backward_targets {
            if !nodes[target] {
                continue;
            }
            let (after, before) =
                (reach(target, &nodes, &flow.next), reach(target, &nodes, &flow.previous));
            let is_round = |index: usize| after[index] && before[index];
            let round: Vec<bool> = (0..nodes.len()).map(is_round).collect();
            if !round[target] {
                continue;
            }
            push(&mut loops, code, &round);
            let is_entered = |index: usize| {
                index == 0 || flow.previous[index].iter().any(|&previous| !round[previous])
            };
            let mut entries: Vec<usize> =
                (0..round.len()).filter(|&index| round[index] && is_entered(index)).collect();
            if entries.is_empty() {
                entries.push(target);
            }
            // Two loops may begin with the same instruction; then each has its own jump back to it.
            if let &[entry] = &entries[..] {
                let mut rest = round.clone();
                rest[entry] = false;
                for &latch in flow.previous[entry].iter().filter(|&&latch| round[latch]) {
                    let mut part = if latch == entry {
                        vec![false; rest.len()]
                    } else {
                        reach(latch, &rest, &flow.previous)
                    };
                    (part[entry], part[latch]) = (true, true);
                    push(&mut loops, code, &part);
                }
            }
            let mut inner = round.clone();
            entries.into_iter().for_each(|entry| inner[entry] = false);
            if nesting < MAX_NESTING {
                open.push((inner, nesting + 1));
            }
            nodes.iter_mut().zip(&round).for_each(|(node, &found)| *node &= !found);
        }
    }
    loops
}

fn push(loops: &mut Vec<HotLoop>, code: &[Instruction], members: &[bool]) {
    let body: Vec<usize> = (0..code.len()).filter(|&index| members[index]).collect();
    loops.push(HotLoop { samples: body.iter().map(|&index| code[index].samples).sum(), body });
}

/// The nodes that are reached from `start` over one or more of `edges`, inside `nodes`.
fn reach(start: usize, nodes: &[bool], edges: &[Vec<usize>]) -> Vec<bool> {
    let mut reached = vec![false; nodes.len()];
    let mut open = vec![start];
    while let Some(index) = open.pop() {
        for &other in edges[index].iter().filter(|&&other| nodes[other]) {
            if !std::mem::replace(&mut reached[other], true) {
                open.push(other);
            }
        }
    }
    reached
}

/// The control flow: which instructions can run after which, by index.
struct Flow {
    next: Vec<Vec<usize>>,
    previous: Vec<Vec<usize>>,
    /// Every loop holds at least one of these.
    backward_targets: Vec<usize>,
}

impl Flow {
    fn new(code: &[Instruction]) -> Self {
        let mut flow = Self {
            next: vec![Vec::new(); code.len()],
            previous: vec![Vec::new(); code.len()],
            backward_targets: Vec::new(),
        };
        for (index, instruction) in code.iter().enumerate() {
            if instruction.falls_through && index + 1 < code.len() {
                flow.connect(index, index + 1);
            }
            let target = instruction
                .target
                .and_then(|target| code.binary_search_by_key(&target, |found| found.offset).ok());
            if let Some(target) = target {
                flow.connect(index, target);
                if target <= index {
                    flow.backward_targets.push(target);
                }
            }
        }
        // The targets of a jump through a table are not in the code. But its cases come after it,
        // and nothing else leads to them.
        let mut table = None;
        for (index, instruction) in code.iter().enumerate() {
            if let Some(jump) = table.filter(|_| flow.previous[index].is_empty()) {
                flow.connect(jump, index);
            }
            if instruction.jumps_anywhere {
                table = Some(index);
            }
        }
        flow.backward_targets.sort_unstable();
        flow.backward_targets.dedup();
        flow
    }

    fn connect(&mut self, from: usize, to: usize) {
        self.next[from].push(to);
        self.previous[to].push(from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Instructions of 4 bytes; the second value is the index of the target, if any.
    fn code(lines: &[(u64, Option<usize>, bool)]) -> Vec<Instruction> {
        let instruction =
            |(index, &(samples, target, falls_through)): (usize, &(u64, Option<usize>, bool))| {
                Instruction {
                    offset: index as u64 * 4,
                    len: 4,
                    target: target.map(|target| target as u64 * 4),
                    falls_through,
                    jumps_anywhere: false,
                    samples,
                }
            };
        lines.iter().enumerate().map(instruction).collect()
    }

    fn body(code: &[Instruction]) -> Option<Vec<usize>> {
        hot_loop(code).map(|found| found.body)
    }

    const NEXT: (u64, Option<usize>, bool) = (0, None, true);

    /// The samples of "63 cores blocked by seven instructions", between an entry and an exit.
    #[test]
    fn seven_instructions_are_found_and_counted() {
        let lines = [
            NEXT,
            NEXT,
            (4, None, true),
            (41, None, true),
            (0, None, true),
            (7_498, Some(10), true),
            (2, None, true),
            (1, None, true),
            (1, Some(2), true),
            NEXT,
            (0, None, false),
        ];
        let found = hot_loop(&code(&lines)).unwrap();
        assert_eq!((found.body, found.samples), ((2..9).collect(), 7_547));
    }

    #[test]
    fn the_innermost_loop_with_nearly_all_samples_is_told() {
        let mut lines = [
            NEXT,
            (5, None, true),
            (1_000, None, true),
            (0, Some(2), true),
            (5, None, true),
            (0, Some(1), true),
            (0, None, false),
        ];
        assert_eq!(body(&code(&lines)), Some(vec![2, 3]));
        lines[4].0 = 2_000;
        assert_eq!(
            body(&code(&lines)),
            Some(vec![1, 2, 3, 4, 5]),
            "most of it is around the inner loop"
        );
    }

    #[test]
    fn a_rare_block_behind_the_end_that_jumps_back_is_no_loop() {
        let lines = [
            (100, None, true),
            (100, Some(4), true),
            (100, None, true),
            (0, None, false),
            (100, None, true),
            (0, Some(2), false),
        ];
        assert_eq!(body(&code(&lines)), None);
    }

    #[test]
    fn a_rare_block_of_a_loop_belongs_to_it_wherever_it_lies() {
        let lines = [
            NEXT,
            (10, None, true),
            (10, Some(5), true),
            (10, Some(1), true),
            (0, None, false),
            (3, None, true),
            (0, Some(3), false),
        ];
        assert_eq!(body(&code(&lines)), Some(vec![1, 2, 3, 5, 6]));
    }

    #[test]
    fn a_loop_may_be_entered_in_its_middle() {
        // `while`: jump to the test, which jumps back to the body.
        let lines = [
            (0, Some(3), false),
            (50, None, true),
            (9, None, true),
            (9, None, true),
            (9, Some(1), true),
            (0, None, false),
        ];
        assert_eq!(body(&code(&lines)), Some(vec![1, 2, 3, 4]));
    }

    #[test]
    fn of_two_loops_that_begin_together_the_inner_is_told() {
        let lines = [
            NEXT,
            (90, None, true),
            (90, Some(1), true),
            (1, None, true),
            (1, Some(1), true),
            (0, None, false),
        ];
        assert_eq!(body(&code(&lines)), Some(vec![1, 2]));
    }

    #[test]
    fn a_loop_around_a_jump_table_holds_its_cases() {
        let mut code = code(&[
            NEXT,
            (9, None, true),
            (9, None, false),
            (9, Some(5), false),
            (9, None, true),
            (9, Some(1), true),
            (0, None, false),
        ]);
        code[2].jumps_anywhere = true;
        assert_eq!(body(&code), Some(vec![1, 2, 3, 4, 5]));
    }

    #[test]
    fn two_jump_tables_one_after_the_other_are_no_loop() {
        let mut code = code(&[
            NEXT,
            (9, None, false),
            (9, Some(3), false),
            (9, None, false),
            (9, None, true),
            (0, None, false),
        ]);
        (code[1].jumps_anywhere, code[3].jumps_anywhere) = (true, true);
        assert_eq!(body(&code), None);
    }

    #[test]
    fn an_instruction_that_repeats_itself_is_a_loop() {
        assert_eq!(body(&code(&[NEXT, (50, Some(1), true), (1, None, false)])), Some(vec![1]));
    }

    #[test]
    fn no_loop_without_backward_branches_or_with_few_samples() {
        assert_eq!(body(&[]), None);
        assert_eq!(body(&code(&[(5, Some(1), true), (5, None, false)])), None);
        assert_eq!(
            body(&code(&[(60, None, true), (40, Some(1), true), (0, None, false)])),
            None,
            "less than half"
        );
        assert_eq!(body(&code(&[NEXT, (0, Some(1), true), (0, None, false)])), None, "no samples");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_code_has_a_consistent_loop_or_none(lines in prop::collection::vec((0_u64..100, prop::option::of(0_usize..40), any::<bool>(), any::<bool>()), 0..40)) {
            let plain: Vec<_> = lines.iter().map(|&(samples, target, falls_through, _)| (samples, target, falls_through)).collect();
            let mut code = code(&plain);
            code.iter_mut().zip(&lines).for_each(|(instruction, line)| instruction.jumps_anywhere = line.3);
            if let Some(found) = hot_loop(&code) {
                prop_assert!(found.body.is_sorted() && found.body.iter().all(|&index| index < code.len()));
                prop_assert_eq!(found.samples, found.body.iter().map(|&index| code[index].samples).sum::<u64>());
                prop_assert!(found.samples * 2 >= code.iter().map(|instruction| instruction.samples).sum::<u64>());
            }
        }
    }
}
