"""Learned credit: models that are fitted to rollouts and predict what a method reads. Needs the extra ``train``.

    model  = ap.models.ValueHead.fit(batch, backbone="small")
    credit = ap.assign("gae", ap.by_token(batch), values=model)

rows → backbone (hidden states before each place) → head → targets, loss, fit → predict: columns of a new batch.
"""

from apportion.models.backbone import Backbone
from apportion.models.fitting import Fitted, Settings
from apportion.models.metrics import Measured
from apportion.models.value_head import ValueHead

__all__ = ["Backbone", "Fitted", "Measured", "Settings", "ValueHead"]
