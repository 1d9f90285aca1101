"""Pruning by age (S1-S3, B20): results go whole, then head and tail, then a placeholder, and never back."""

from bisect import bisect_left, bisect_right

from longturn.core.policy import Pruning
from longturn.core.rungs import edit
from longturn.core.view import State, View

WORTHWHILE = 4
"""Pruning alone breaks a front only when it frees this fraction of what a break frees: (limit - target) / 4 (B20)."""


def prune(view: View, state: State, pruning: Pruning) -> State:
    """The state with what has grown old pruned: when that frees enough, or the front breaks anyway (B20)."""
    softened = max(state.softened, _older_than(view, pruning.soft_trim_ratio, pruning))
    hardened = max(state.hardened, _older_than(view, pruning.hard_clear_ratio, pruning) if pruning.hard_clear else 0)
    # What stands before the first user message is never touched (S3); one that is still to come is not known here.
    if state.first < 0:
        return state
    start = max(view.begin(state), state.first)
    touched = view.prunable(max(state.softened, start), softened) + view.prunable(max(state.hardened, start), hardened)
    if not touched:
        return state
    pruned = edit(view, state, min(touched), softened=softened, hardened=hardened)
    is_broken = view.size(state) > view.ceiling(state) or view.turns(state) > view.limits.turns
    freed = view.size(state) - view.size(pruned)
    is_worthwhile = freed * WORTHWHILE >= view.ceiling(state) - view.target(state)
    return pruned if freed > 0 and (is_broken or is_worthwhile) else state


def _older_than(view: View, ratio: float, pruning: Pruning) -> int:
    """The row before which messages are at least this old (S2) and not protected (S3)."""
    answers, heads = view.counts.transcript.answers, view.counts.heads
    rounds, count = bisect_left(answers, view.border), bisect_left(heads, view.border)
    kept = pruning.keep_last_assistants
    if kept > rounds:
        return 0
    newest = answers[rounds - kept] if kept else view.border
    # Age of message i of n is (n - i) / n, borders included; it falls with i.
    old = bisect_right(range(count), -ratio, key=lambda index: (index - count) / count)
    return min(heads[old] if old < count else view.border, newest)
