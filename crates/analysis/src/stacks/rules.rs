//! What a stack means: rules that map function names to wait classes and wake-up sources.
//!
//! The rules are data (`waits/*.toml`, embedded; a user's file comes before them). *Why data:*
//! every kernel, libc and language runtime has names of its own, and a missing name must not need
//! a new release. `waits/linux.toml` specifies how rules are read.

use super::layer::LayerRules;
use super::name_patterns::{NamePatterns, base_name};
use super::rule_file::{EMBEDDED, FrameRole, Rule, RuleFile, RulesError};
use super::wait_class::{InterruptSource, Wait, WaitClass};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

/// What a script's name ends with, and what parts it from a function's.
const SCRIPT_END: &str = ".py:";

/// Compiled rules: which names matter, and what their combinations mean.
#[derive(Clone)]
pub struct Rules {
    patterns: NamePatterns,
    waits: Vec<CompiledRule<WaitClass>>,
    /// The first of `waits` that is tried only after the wait places.
    places_at: usize,
    /// The rule that lists a pattern as its wait place.
    places: FxHashMap<u16, usize>,
    /// The rule that lists a pattern as generic.
    generics: FxHashMap<u16, usize>,
    interrupts: Vec<CompiledRule<InterruptSource>>,
    roles: FxHashMap<u16, FrameRole>,
    /// Patterns of functions that only implement a lock or a wait for their callers.
    machinery: FxHashSet<u16>,
    /// Patterns of scripts' functions, which follow the names of their files.
    of_scripts: FxHashSet<u16>,
    /// Whose code a frame is.
    pub(super) layers: LayerRules,
    /// What programs' users call their waits, by [`Wait::words`].
    words: Vec<String>,
    /// What helps whoever waits too long, by those words.
    advice: BTreeMap<String, String>,
}

/// A rule with patterns in place of names.
#[derive(Clone)]
struct CompiledRule<C> {
    class: C,
    any: Vec<u16>,
    all: Vec<u16>,
    file: Vec<u16>,
    leaf: Vec<u16>,
    caller: Vec<u16>,
    /// It applies only to the frames that `places` and `generics` find.
    by_place: bool,
    pump: bool,
    toolkit: bool,
    unwanted: bool,
    words: Option<u16>,
    holder_runs: bool,
    message: bool,
}

impl<C> CompiledRule<C> {
    /// True if the stack as a whole has what the rule demands.
    fn is_satisfied_by(&self, matches: &Matches) -> bool {
        let has_one = |of: &[u16]| of.is_empty() || of.iter().any(|&pattern| matches.has(pattern));
        has_one(&self.any)
            && has_one(&self.file)
            && self.all.iter().all(|&pattern| matches.has(pattern))
    }
}

impl CompiledRule<WaitClass> {
    fn wait(&self) -> Wait {
        Wait {
            class: self.class,
            pump: self.pump,
            toolkit: self.toolkit,
            unwanted: self.unwanted || self.class.is_unwanted(),
            words: self.words,
            holder_runs: self.holder_runs,
            message: self.message,
        }
    }
}

/// A wait stack as rules see it: the patterns that each frame matches, leaf first.
#[derive(Clone, Copy)]
pub(crate) struct WaitStack<'a, F> {
    /// The patterns of all frames that are the waiting thread's own.
    pub(crate) matches: &'a Matches,
    /// The number of kernel frames.
    pub(crate) kernel: usize,
    /// The number of frames at the leaf that belong to the tracer and the scheduler.
    pub(crate) noise: usize,
    /// The patterns of a frame by its number from the leaf; empty beyond the last.
    pub(crate) patterns: F,
}

/// The set of patterns that some frames match.
#[derive(Clone, Default)]
pub(crate) struct Matches(Vec<u64>);

impl Matches {
    pub(crate) fn clear(&mut self) {
        self.0.fill(0);
    }

    pub(crate) fn add(&mut self, patterns: &[u16]) {
        for &pattern in patterns {
            let word = usize::from(pattern / 64);
            if self.0.len() <= word {
                self.0.resize(word + 1, 0);
            }
            self.0[word] |= 1 << (pattern % 64);
        }
    }

    fn has(&self, pattern: u16) -> bool {
        self.0.get(usize::from(pattern / 64)).is_some_and(|word| word >> (pattern % 64) & 1 == 1)
    }
}

impl Default for Rules {
    /// The embedded rules.
    fn default() -> Self {
        Self::parse(None).expect("the embedded rules are tested")
    }
}

impl Rules {
    /// The embedded rules with a user's `text` tried before them.
    ///
    /// # Errors
    /// When `text` is not a file of rules.
    pub fn with_user_rules(text: &str) -> Result<Self, RulesError> {
        Self::parse(Some(text))
    }

    fn parse(user: Option<&str>) -> Result<Self, RulesError> {
        let mut rules = Self {
            patterns: NamePatterns::default(),
            waits: Vec::new(),
            places_at: 0,
            places: FxHashMap::default(),
            generics: FxHashMap::default(),
            interrupts: Vec::new(),
            roles: FxHashMap::default(),
            machinery: FxHashSet::default(),
            of_scripts: FxHashSet::default(),
            layers: LayerRules::default(),
            words: Vec::new(),
            advice: BTreeMap::new(),
        };
        let mut places_at = None;
        let embedded = EMBEDDED.into_iter().map(|text| (true, text));
        for (is_embedded, text) in user.map(|text| (false, text)).into_iter().chain(embedded) {
            let file = RuleFile::parse(text)?;
            for rule in file.wait {
                // A user's rule without a place comes before the step of the places; one with a
                // place belongs to that step.
                let number = rules.waits.len();
                if is_embedded && !rule.place.is_empty() {
                    rules.places_at = *places_at.get_or_insert(number);
                }
                for (names, is_place) in [(&rule.place, true), (&rule.generic, false)] {
                    let patterns = rules.patterns.add_all(names);
                    let rule_of = if is_place { &mut rules.places } else { &mut rules.generics };
                    rule_of.extend(patterns.into_iter().map(|pattern| (pattern, number)));
                }
                let rule = rules.compile(rule);
                if rule.by_place && rule.class.is_between_threads() {
                    // A rule names functions of scripts to tell what for, however far out they are.
                    let of_scripts = &rules.of_scripts;
                    let native = rule.any.iter().filter(|pattern| !of_scripts.contains(*pattern));
                    rules.machinery.extend(native);
                }
                rules.waits.push(rule);
            }
            for rule in file.interrupt {
                let rule = rules.compile(rule);
                rules.interrupts.push(rule);
            }
            rules.layers.extend(&file.layers);
            // A user's own comes first, and stays.
            for (words, advice) in file.advice {
                rules.advice.entry(words).or_insert(advice);
            }
            for (role, names) in file.frames {
                let patterns = rules.patterns.add_all(&names);
                rules.roles.extend(patterns.into_iter().map(|pattern| (pattern, role)));
            }
        }
        let has_words = |words: &String| rules.words.contains(words);
        match user.filter(|_| !rules.advice.keys().all(has_words)) {
            Some(text) => Err(RulesError::advice(text)),
            None => Ok(rules),
        }
    }

    fn words<C>(&mut self, rule: &Rule<C>) -> Option<u16> {
        let number = u16::try_from(self.words.len()).ok().filter(|_| !rule.words.is_empty())?;
        self.words.push(rule.words.clone());
        Some(number)
    }

    fn compile<C>(&mut self, rule: Rule<C>) -> CompiledRule<C> {
        let [any, all, file, leaf, caller] =
            [&rule.any, &rule.all, &rule.file, &rule.leaf, &rule.caller]
                .map(|names| self.patterns.add_all(names));
        let named = rule.any.iter().zip(&any).chain(rule.all.iter().zip(&all));
        let of_scripts = named.filter(|(name, _)| name.contains(SCRIPT_END));
        self.of_scripts.extend(of_scripts.map(|(_, pattern)| pattern));
        let words = self.words(&rule);
        let by_place = !rule.place.is_empty() || !rule.generic.is_empty();
        CompiledRule {
            class: rule.class,
            any,
            all,
            file,
            leaf,
            caller,
            by_place,
            pump: rule.pump || rule.toolkit,
            toolkit: rule.toolkit,
            unwanted: rule.unwanted,
            words,
            holder_runs: rule.holder_runs,
            message: rule.message,
        }
    }

    /// The patterns that a function's name matches.
    pub(crate) fn patterns_matching(&self, function: &str) -> Vec<u16> {
        self.patterns.matching(function)
    }

    /// What the wait with this stack is for.
    pub(crate) fn wait<'p>(&self, stack: WaitStack<'_, impl Fn(usize) -> &'p [u16]>) -> Wait {
        let (before, after) = self.waits.split_at(self.places_at);
        let whole = |rules: &[CompiledRule<WaitClass>]| {
            let is_at = |names: &[u16], frame: usize| {
                names.is_empty() || (stack.patterns)(frame).iter().any(|p| names.contains(p))
            };
            let applies = |rule: &&CompiledRule<WaitClass>| {
                !rule.by_place
                    && is_at(&rule.leaf, stack.noise)
                    && is_at(&rule.caller, stack.noise + 1)
                    && rule.is_satisfied_by(stack.matches)
            };
            rules.iter().find(applies).map(CompiledRule::wait)
        };
        let innermost = |rule_of: &FxHashMap<u16, usize>, from: usize| {
            (from..stack.kernel).find_map(|frame| {
                let numbers =
                    (stack.patterns)(frame).iter().filter_map(|pattern| rule_of.get(pattern));
                let rules =
                    numbers.filter(|number| self.waits[**number].is_satisfied_by(stack.matches));
                rules.min().map(|number| self.waits[*number].wait())
            })
        };
        whole(before)
            .or_else(|| innermost(&self.places, stack.noise))
            .or_else(|| innermost(&self.generics, 0))
            .or_else(|| whole(after))
            .unwrap_or_default()
    }

    /// The source of an interrupt whose frames match `matches`.
    pub(crate) fn interrupt_source(&self, matches: &Matches) -> InterruptSource {
        self.interrupts
            .iter()
            .find(|rule| rule.is_satisfied_by(matches))
            .map_or(InterruptSource::Other, |rule| rule.class)
    }

    /// The patterns that a module's file matches, in brackets.
    pub(crate) fn patterns_of_module(&self, path: &str) -> Vec<u16> {
        let path = unhitch_model::Module::path_before(path).unwrap_or(path);
        let file = path.rsplit('/').next().unwrap_or(path);
        self.patterns.matching(&format!("[{}]", base_name(file)))
    }

    /// The patterns that a script's function matches, after its file.
    pub(crate) fn patterns_of_script(&self, path: &str, function: &str) -> Vec<u16> {
        let file = path.rsplit('/').next().unwrap_or(path);
        let mut patterns = self.patterns.matching(&format!("{file}:{function}"));
        patterns.retain(|pattern| self.of_scripts.contains(pattern));
        patterns
    }

    /// What programs' users call their waits, by [`Wait::words`].
    pub(crate) fn all_words(&self) -> &[String] {
        &self.words
    }

    /// What helps whoever waits too long, by the words of the wait.
    pub(crate) fn all_advice(&self) -> &BTreeMap<String, String> {
        &self.advice
    }

    /// True for a function that only implements a lock or a wait for its caller.
    pub(crate) fn is_machinery(&self, patterns: &[u16]) -> bool {
        patterns.iter().any(|pattern| self.machinery.contains(pattern))
    }

    /// What a function with these patterns means by itself.
    pub(crate) fn roles(&self, patterns: &[u16]) -> Vec<FrameRole> {
        patterns.iter().filter_map(|pattern| self.roles.get(pattern).copied()).collect()
    }
}

#[cfg(test)]
mod tests;
