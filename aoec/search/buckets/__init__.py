"""Which gradients of a training step are sent together: the plan of the shortest step, the plans of others, one step in time."""
from aoec.search.buckets.baselines import baselines
from aoec.search.buckets.bucket_search import Limits, Planned, plan
from aoec.search.buckets.pair_costs import Costs
from aoec.search.buckets.step_timeline import timeline

__all__ = ["Costs", "Limits", "Planned", "baselines", "plan", "timeline"]
