"""What the routes of one worker process share: the model, the batches, the jobs, the metrics."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import torch
from fastapi import Request

from itaml.hardware.machine import cores
from itaml.serve.job_queue import JobQueue
from itaml.serve.micro_batches import Batcher
from itaml.serve.model_watch import ModelWatch
from itaml.serve.service_metrics import ServiceMetrics
from itaml.serve.service_options import Limits, ServiceOptions

SAVE = 1.0  # seconds between two writes of the counters


class Service:
    """The parts of a running service."""

    def __init__(self, options: ServiceOptions) -> None:
        self.options = options
        self.metrics = ServiceMetrics(options.staging / "metrics" if options.workers > 1 else None)
        self.watch = ModelWatch(options.model)
        self.batcher = Batcher(options.batch_milliseconds / 1000)
        self.jobs = JobQueue(options)
        self.decoders = ThreadPoolExecutor(max(2, cores()), thread_name_prefix="itaml-decode")
        self.changes = ThreadPoolExecutor(1, thread_name_prefix="itaml-change")
        self.stopping = threading.Event()
        self._saver = threading.Thread(target=self._save_metrics, name="itaml-metrics", daemon=True)

    @property
    def limits(self) -> Limits:
        """What requests may ask for."""
        return self.options.limits

    def start(self) -> None:
        """Load the model in the background, and start to take requests."""
        if self.options.threads is not None:
            torch.set_num_threads(self.options.threads)  # threads that are started from now on inherit it
        self.watch.start()
        self.batcher.start()
        self.jobs.start()
        self._saver.start()

    def stop(self) -> None:
        """Finish what is under way, and park the job."""
        self.stopping.set()
        self.jobs.stop()
        self.batcher.stop()
        self.watch.stop()
        self.decoders.shutdown()
        self.changes.shutdown()

    def gauges(self) -> dict[str, float]:
        """Return the values of this moment for the metrics."""
        served = self.watch.served
        return {
            "itaml_queue_images": self.batcher.waiting,
            "itaml_jobs_waiting": self.jobs.waiting(),
            "itaml_model_version": -1 if served is None else served.version,
            "itaml_model_classes": 0 if served is None else len(served.classes),
        }

    def _save_metrics(self) -> None:
        while self.metrics.folder is not None and not self.stopping.wait(SAVE):
            self.metrics.save()


def service_of(request: Request) -> Service:
    """Return the service that a request is for."""
    service: Service = request.app.state.service
    return service
