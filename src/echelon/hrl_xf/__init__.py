"""HRL-XF: the four-layer agent for SCML Standard. The folders are in the order of the data flow; imports point down
this list.

    commands      one module for each `echelon hrl …` command
    training      what the guides call to train; l2_manager, l3_executor and l4_coordinator are their names for layers
    evolve        habits of L3, learnt by trying them out for whole worlds
    online        training by playing: PPO in the simulator
    submission    an agent as a self-contained package for the league; the start of an agent of one's own
    arena         competitors in the same seats of the same worlds, and the standings
    learning      batches, targets, losses, fitting and evaluation of the layers
    collect       tournaments that are recorded, on all cores, resumable
    data_pipeline what the guides call to load training data
    dataset       logs become tables, shards, samples
    agent         LitaAgentHRL and LitaAgentRules, the agents that scml plays with
    recording     a world becomes logs, logs become columns
    play          the agent's day: choice of layers, decisions, diary, narration
    competitors   who can sit in a seat, by name
    networks      L2, L3 and L4 as torch networks, and the critic of days: what is trained
    layers        L2, L3 and L4 as they play, in numpy, learnt or by rule
    state         the day and all pure functions of it: schema, arrays, features, L1, goals
    lean          the fast simulator
    options       the options of the commands
    weights       the bundled weights

Glossary.

configuration   what is drawn before a game: factories, costs, exogenous contracts, and who sits where is still open
world           one game that is played: a configuration with an agent in each seat
seat            a place in a configuration: one factory at one level of the chain
focal seat      the seat that the arena gives to each competitor in turn; the agents around it are the field
competitor      an agent that is compared in the arena or plays in a tournament
expert          a competitor whose logs are learnt from
day             one step of a world, from 0
round           one exchange of offers within a day's negotiations
thread          one negotiation with one partner on one day, as the agent sees it; negmas calls it a mechanism
call            one time that negmas asks the agent, about one thread or about all
decision        what the agent answers in one thread at one call: an answer, and an offer where it rejects
answer          ACCEPT, REJECT or END (columns call it `op`, negmas a response)
offer           quantity (pieces), day of delivery, unit price
habit           a term of L3's logits with a weight that holds for whole worlds; learnt by evolution
baseline        the plain offer that L1 computes within its limits; L3 learns differences to it
goal            L2's 16 numbers of a day: 4 buckets of days ahead × quantity and price, to buy and to sell
label           the goal that a logged day turned out to follow (v2); what L2 learns
collection      the folder of a recorded tournament
arena           the folder of a comparison
run             any folder that a command made
data set        samples ready for training; `dataset` in names of code and commands
"""
