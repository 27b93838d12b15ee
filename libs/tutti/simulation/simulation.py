"""Simulation: services in one thread, in a world that fails by seed.

Promises: the same seed does the same; what fails names the seed that repeats it; every fault is counted.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Set
from datetime import timedelta
from typing import TypeVar

import grpc
from blake3 import blake3

from tutti.backbone.backoff import Backoff
from tutti.chassis.delivery.consumer import Consumer
from tutti.chassis.delivery.relay import Relay
from tutti.chassis.errors import Problem, is_transient
from tutti.chassis.identity.auth import Role
from tutti.chassis.service import Build
from tutti.chassis.store.unit import Unit
from tutti.simulation.controls import Control
from tutti.simulation.faults import RATES, Fate, Fault
from tutti.simulation.lives import Actor, BuildAgent, Life, Settings, start_agent, start_service
from tutti.simulation.network import Network, channel
from tutti.simulation.oracle import emitted, examine, is_settled
from tutti.simulation.world import Crashed, Process, World
from tutti.simulation.zombies import Zombie

T = TypeVar("T")
TTL = 15.0
BACKOFF = Backoff(0.4, 5.0)
CLIENT = Process("client", 0, mortal=False)


class SimulationFailed(AssertionError):
    """Something was wrong under this seed."""


class Simulation:
    """Runs services (and agents) until something holds, and examines what is left.

        simulation = Simulation(seed, builds={"order": order.build, "ledger": ledger.build})
        simulation.add("node-a", build_agent)                       # loops with blobs and channels, no database
        orders = OrderServiceStub(simulation.channel("order"))
        simulation.insist(lambda: orders.CreateOrder(request))      # a client that repeats what was not answered
        simulation.run(until=lambda: ...)                           # turns with faults
        simulation.settle()                                         # faults stop, everything open is carried through
        simulation.examine()                                        # nothing lost, nothing doubled, tables = fold
        simulation.close()

    Every loop of every service is an actor: relay, consumer, task workers, sweeper, reconcilers, own loops. A turn
    steps one that is due, by seed; at each call of a port the process may crash and others may run. A crashed process
    loses its objects; database, log, blobs and disk stay. `replicas` lives of each service share its database.
    `settings` are the sections by service; `rates` how often each fault strikes; `control` takes a safeguard out.
    Services keep the rules because breaking one fails the run: no port is called inside a transaction, no loop raises
    anything but what is transient.
    """

    def __init__(
        self,
        seed: int | str,
        builds: Mapping[str, Build],
        *,
        replicas: int = 1,
        settings: Settings | None = None,
        rates: Mapping[Fault, float] = RATES,
        control: Control | None = None,
        ttl: float = TTL,
    ) -> None:
        self.seed, self.turns, self.control = seed, 0, control
        self.fate = Fate(seed, rates)
        self.world = World(self.fate, others_run=self._turn, kill=self._kill, appended=self._wake_consumers)
        self.network = Network(self.world, self._find)
        self.clock = self.world.clock
        self._builds, self._settings, self._ttl, self._replicas = dict(builds), settings or {}, ttl, replicas
        self._agents: dict[str, BuildAgent] = {}
        self.lives: dict[str, list[Life]] = {name: [] for name in builds}
        self._actors: list[Actor] = []
        self._down: list[tuple[float, str]] = [(0.0, name) for name in builds for _ in range(replicas)]
        self._starts: Counter[str] = Counter()
        self.zombie_died = False
        self._trace = blake3()
        self._raise_dead()

    @property
    def faults(self) -> Counter[Fault]:
        return self.fate.counts

    @property
    def events(self) -> Counter[str]:
        """The number of distinct committed events of each type."""
        return emitted(self)

    @property
    def trace(self) -> str:
        """A digest of all turns: equal for equal seeds."""
        return self._trace.hexdigest()

    @property
    def relay_uncertain(self) -> bool:
        """True if a relay, or a sleeping one, has yet to learn that others sent newer snapshots before it."""
        loops = [actor.loop for actor in self._actors]
        return any(isinstance(loop, Zombie) or (isinstance(loop, Relay) and loop.uncertain) for loop in loops)

    def add(self, name: str, build: BuildAgent) -> None:
        """Add an agent: `build(AgentHost)` returns its loops; called again after each of its crashes."""
        self._agents[name] = build
        self._down.append((0.0, name))
        self._raise_dead()

    def channel(self, service: str, role: Role = Role.ENGINEER) -> grpc.Channel:
        """The channel of a client outside, which does not crash."""
        return channel(self.network, CLIENT, service, role)

    def insist(self, call: Callable[[], T], *, tries: int = 1000) -> T:
        """Repeat a call until it is answered, with turns in between."""
        for _ in range(tries):
            try:
                return self._guarded(call)
            except Problem as problem:
                if not problem.transient:
                    raise
            self.run(max_turns=5)
        raise SimulationFailed(f"seed {self.seed}: a call was not answered {tries} times in a row")

    def peek(self, service: str, look: Callable[[Unit], T]) -> T:
        """Read a service's database without faults."""
        calm, self.fate.calm = self.fate.calm, True
        try:
            while not self.lives[service]:
                self._raise_dead(at_once=True)
            return self.lives[service][0].parts.host.units.run(look)
        finally:
            self.fate.calm = calm

    def run(self, *, until: Callable[[], bool] | None = None, max_turns: int = 10_000, every: int = 20) -> None:
        """Take turns until `until()` (asked every so many turns) or as many as allowed. Raises SimulationFailed."""
        for turn in range(max_turns):
            if until is not None and turn % every == 0 and until():
                return
            self._guarded(self._turn)
        if until is not None and not until():
            raise SimulationFailed(f"seed {self.seed}: what was waited for did not happen in {max_turns} turns")

    def settle(self, *, until: Callable[[], bool] | None = None, max_turns: int = 20_000) -> None:
        """Stop the faults and go on until nothing waits anywhere (and `until()` holds)."""
        self.fate.calm = True

        def settled() -> bool:
            self._raise_dead(at_once=True)
            return is_settled(self) and (until is None or until())

        self.run(until=settled, max_turns=max_turns, every=50)

    def examine(self) -> None:
        """Raises SimulationFailed with everything that is wrong."""
        if found := examine(self):
            raise SimulationFailed(f"seed {self.seed}: " + "; ".join(found[:10]))

    def crash(self, service: str) -> None:
        """End a life of a service now; it comes back."""
        for life in self.lives[service][:1]:
            self._kill(life.process)

    def close(self) -> None:
        self.world.close()

    def __enter__(self) -> "Simulation":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _guarded(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except (Problem, SimulationFailed):
            raise
        except Exception as error:
            raise SimulationFailed(f"seed {self.seed}, turn {self.turns}: {type(error).__name__}: {error}") from error

    def _turn(self, among: str | None = None) -> None:
        """One step of one actor (of a service, if named); time goes on when nobody is due."""
        self.turns += 1
        self._weather()
        self._raise_dead()
        now = self.clock.monotonic()
        if due := self._due(now, among):
            self._step(self.fate.choose(due))
        elif self.world.depth == 0:
            waits = [actor.due for actor in self._actors if actor.idle] + [at for at, _ in self._down]
            self.clock.advance(max(0.0, min(waits, default=now) - now))
            if due := self._due(self.clock.monotonic(), among):
                self._step(self.fate.choose(due))

    def _due(self, now: float, among: str | None) -> list[Actor]:
        return [
            actor
            for actor in self._actors
            if (actor.due <= now or (actor.woken is not None and actor.woken.is_set()))
            and actor.idle
            and among in (None, actor.process.name)
        ]

    def _wake_consumers(self, topics: Set[str]) -> None:
        """A consumer that waits for events hears of them soon, as it would inside its poll."""
        for actor in self._actors:
            if isinstance(actor.loop, Consumer) and not topics.isdisjoint(actor.loop.handling.topics):
                actor.due = min(actor.due, self.clock.monotonic() + self.fate.between(0, 0.5))

    def _weather(self) -> None:
        self.clock.advance(self.fate.between(0, 0.01))
        if self.fate.strikes(Fault.CLOCK_PAUSED):
            self.clock.advance(self.fate.between(self._ttl / 2, 3 * self._ttl))
        if self.fate.strikes(Fault.CLOCK_JUMPED):
            self.clock.skew = timedelta(seconds=self.fate.between(-120, 120))

    def _step(self, actor: Actor) -> None:
        if actor.woken is not None:
            actor.woken.clear()
        actor.busy, outcome = True, "nothing"
        wait = actor.interval
        try:
            if self._work(actor):
                wait, outcome, actor.in_vain = 0.0, "something", 0
            else:
                actor.in_vain += 1
            actor.failures = 0
        except Crashed:
            outcome = "crash"
        except Exception as error:
            if not is_transient(error):
                raise
            actor.failures += 1
            wait, outcome = self.fate.between(0.1, BACKOFF.longest(actor.failures)), type(error).__name__
        finally:
            actor.busy = False
        actor.due = self.clock.monotonic() + wait
        self._trace.update(f"{self.turns} {actor.process.holder} {actor.loop.name} {outcome}\n".encode())

    def _work(self, actor: Actor) -> bool:
        """Step the loop; a relay may fall asleep with what it has just read, and another takes its place."""
        relay = actor.loop
        if not isinstance(relay, Relay) or self.control is Control.MARK_BEFORE_PUBLISH:
            return actor.loop.step()
        if not self.fate.strikes(Fault.RELAY_ZOMBIE):
            return relay.step()
        lease, rows = relay.take()
        if lease is None or not rows:
            self.fate.counts[Fault.RELAY_ZOMBIE] -= 1
            return False
        zombie = Zombie(relay, rows, lease, retire=self._retire)
        self._actors.append(Actor(actor.process, zombie, self.clock.monotonic() + self.fate.between(0, 3 * self._ttl)))
        life = next(each for each in self._lives() if each.process is actor.process)
        actor.follow(life.replace_relay(f"{actor.process.holder} turn {self.turns}", self._ttl))
        return True

    def _retire(self, zombie: Zombie) -> None:
        self._actors = [actor for actor in self._actors if actor.loop is not zombie]

    def _find(self, service: str) -> Life | None:
        lives = [life for life in self.lives.get(service, ()) if not life.process.stalled]
        return self.fate.choose(lives) if lives else None

    def _lives(self) -> list[Life]:
        return [life for lives in self.lives.values() for life in lives]

    def _kill(self, process: Process) -> None:
        process.alive = False
        mine = [each for each in self._actors if each.process is process]
        self.zombie_died |= any(isinstance(each.loop, Zombie) or each.busy for each in mine)
        self._actors = [actor for actor in self._actors if actor.process is not process]
        for lives in self.lives.values():
            lives[:] = [life for life in lives if life.process is not process]
        self._down.append((self.clock.monotonic() + self.fate.between(0, 5), process.name))

    def _raise_dead(self, *, at_once: bool = False) -> None:
        now = self.clock.monotonic()
        for each in [each for each in self._down if at_once or each[0] <= now]:
            self._down.remove(each)
            self._start(each[1])

    def _start(self, name: str) -> None:
        self._starts[name] += 1
        process, seed = Process(name, self._starts[name]), f"{self.seed} {name} {self._starts[name]}"
        calm, self.fate.calm = self.fate.calm, True
        try:
            if name in self._agents:
                self._actors += start_agent(
                    self.world, self.network, name, self._agents[name], process=process, seed=seed
                )
                return
            life = start_service(
                self.world,
                self.network,
                name,
                self._builds[name],
                process=process,
                seed=seed,
                settings=self._settings,
                alone=self._replicas == 1,
                control=self.control,
                ttl=self._ttl,
            )
        finally:
            self.fate.calm = calm
        self.lives[name].append(life)
        self._actors += life.actors
