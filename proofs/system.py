"""Transition systems, and two questions about each: is its invariant inductive, is a breach in reach?

A system names its sorts, its rigid functions (fixed for a whole run), its state functions, its axioms,
and its actions. An action is a guard and what it changes; all else stays. `prove` leaves the sorts
uninterpreted, so that its answer holds for every number of servers, attempts and steps. `refute` gives
each sort a few members and searches runs from the start, of one length, for one that ends in a breach.
"""

import itertools
from dataclasses import dataclass, field

import z3

# An obligation that takes longer is a failure of the proof. All of them take a few seconds together.
TIMEOUT_MS = 60_000

BOOL, REAL = "Bool", "Real"

QUESTIONS = itertools.count()


@dataclass
class System:
    """The parts of a transition system; `functions` map a name to (argument sorts, result sort)."""

    name: str
    sorts: list
    rigid: dict
    state: dict
    axioms: dict  # name -> f(logic)
    start: dict  # name -> f(logic, state)
    actions: dict  # name -> (parameter sorts, f(logic, state, *parameters) -> (guard, updates))
    invariants: dict  # name -> f(logic, state)
    safety: dict  # name -> f(logic, state)
    # For `refute`: how many members each sort has, and what to fix.
    size: dict = field(default_factory=dict)
    small: dict = field(default_factory=dict)  # name -> f(logic)


class State:
    """A state: each of its functions by name, as an attribute that can be called."""

    def __init__(self, functions):
        self.__dict__.update(functions)


class Logic:
    """The sorts and rigid functions of one question, and quantifiers over its sorts."""

    def __init__(self, system, members=None):
        self.system = system
        self.members = {}
        self.sorts = {BOOL: z3.BoolSort(), REAL: z3.RealSort()}
        for sort in system.sorts:
            if members is None:
                self.sorts[sort] = z3.DeclareSort(sort)
            else:
                names = [f"{sort}{number}" for number in range(members[sort])]
                # An enumeration is declared once in a process: each question has its own.
                unique = f"{sort}#{next(QUESTIONS)}"
                self.sorts[sort], self.members[sort] = z3.EnumSort(unique, names)
        self.__dict__.update(self.declare(system.rigid, ""))

    def declare(self, functions, suffix):
        """Fresh symbols for functions."""
        return {name: self.symbol(name + suffix, *types) for name, types in functions.items()}

    def symbol(self, name, arguments, result):
        domain = [self.sorts[sort] for sort in arguments]
        if not domain:
            constant = z3.Const(name, self.sorts[result])
            return lambda: constant
        return z3.Function(name, *domain, self.sorts[result])

    def tuples(self, sorts):
        """All tuples of members, where the sorts have members."""
        return itertools.product(*(self.members[sort] for sort in sorts))

    def quantify(self, quantifier, connective, sorts, body):
        if self.members:
            return connective([body(*members) for members in self.tuples(sorts)])
        variables = [z3.FreshConst(self.sorts[sort], sort[0].lower()) for sort in sorts]
        return quantifier(variables, body(*variables))

    def every(self, *sorts_and_body):
        *sorts, body = sorts_and_body
        return self.quantify(z3.ForAll, z3.And, sorts, body)

    def some(self, *sorts_and_body):
        *sorts, body = sorts_and_body
        return self.quantify(z3.Exists, z3.Or, sorts, body)


def at(*place):
    """The new value of a function in one place; it stays as it is in all others."""
    *arguments, value = place

    def update(old):
        def new(*given):
            here = z3.And([g == a for g, a in zip(given, arguments)]) if arguments else True
            return z3.If(here, value, old(*given))

        return new

    return update


def where(condition, value):
    """The new value of a function in all places that meet a condition."""

    def update(old):
        return lambda *given: z3.If(z3.And(condition(*given)), value(*given), old(*given))

    return update


def after(system, state, updates):
    """The state after an action, as expressions over the state before it."""
    functions = {}
    for name in system.state:
        old = getattr(state, name)
        functions[name] = updates[name](old) if name in updates else old
    return State(functions)


def prove(system):
    """The obligations that do not hold, as "action: invariant"; none when the proof is whole."""
    logic = Logic(system)
    before = State(logic.declare(system.state, ""))
    axioms = [axiom(logic) for axiom in system.axioms.values()]
    assumed = axioms + [holds(logic, before) for holds in system.invariants.values()]

    failed = []

    def oblige(name, assumptions, conclusion):
        solver = z3.Solver()
        solver.set("timeout", TIMEOUT_MS)
        solver.add(*assumptions, z3.Not(conclusion))
        if solver.check() != z3.unsat:
            failed.append(name)

    start = [holds(logic, before) for holds in system.start.values()]
    for name, holds in system.invariants.items():
        oblige(f"start: {name}", axioms + start, holds(logic, before))
    for name, holds in system.safety.items():
        oblige(f"invariant: {name}", assumed, holds(logic, before))
    for action, (sorts, act) in system.actions.items():
        parameters = [z3.FreshConst(logic.sorts[sort], sort[0].lower()) for sort in sorts]
        guard, updates = act(logic, before, *parameters)
        new = after(system, before, updates)
        for name, holds in system.invariants.items():
            oblige(f"{action}: {name}", assumed + [guard], holds(logic, new))
    return failed


def is_consistent(system):
    """Whether the axioms can hold at all, in the small: from a contradiction all would follow."""
    logic = Logic(system, system.size)
    solver = z3.Solver()
    solver.add(*(axiom(logic) for axiom in system.axioms.values()))
    solver.add(*(fix(logic) for fix in system.small.values()))
    return solver.check() == z3.sat


def refute(system, steps):
    """Whether a run of so many steps, from the start, ends in a breach of safety."""
    logic = Logic(system, system.size)
    solver = z3.Solver()
    solver.add(*(axiom(logic) for axiom in system.axioms.values()))
    solver.add(*(fix(logic) for fix in system.small.values()))
    state = State(logic.declare(system.state, "@0"))
    solver.add(*(holds(logic, state) for holds in system.start.values()))
    for step in range(1, steps + 1):
        choice = z3.Int(f"choice@{step}")
        following = State(logic.declare(system.state, f"@{step}"))
        add_step(solver, logic, state, following, choice)
        state = following
    solver.add(z3.Not(z3.And([holds(logic, state) for holds in system.safety.values()])))
    return solver.check() == z3.sat


def add_step(solver, logic, state, following, choice):
    """Adds one step of a run: `choice` is one of the actions, with one of its parameters."""
    system, choices = logic.system, 0
    for action, (sorts, act) in system.actions.items():
        # Reals are left to the solver.
        kinds = [logic.members.get(sort, [None]) for sort in sorts]
        for members in itertools.product(*kinds):
            parameters = [
                z3.FreshConst(logic.sorts[sort], action) if member is None else member
                for sort, member in zip(sorts, members)
            ]
            guard, updates = act(logic, state, *parameters)
            new = after(system, state, updates)
            same = [
                getattr(following, name)(*place) == getattr(new, name)(*place)
                for name, (arguments, _) in system.state.items()
                for place in logic.tuples(arguments)
            ]
            solver.add(z3.Implies(choice == choices, z3.And(guard, *same)))
            choices += 1
    solver.add(choice >= 0, choice < choices)
