"""Where in a clip a training episode starts: more often where robots fail."""

import torch


class StartFrames:
    """Adaptive choice of start frames, by bins of equal length.

    With m_b the moving average of the failures in bin b, p_b = u / B + (1 - u) m_b / sum m; without any
    failure yet, p_b = 1 / B.

    Args:
        last_frame: Last frame of the clip; an episode starts before it.
        bin_frames: Frames of a bin.
        ema_alpha: Weight of a new failure count in m.
        uniform_share: u.
        device: Where the tensors live.
    """

    def __init__(
        self,
        last_frame: int,
        bin_frames: int,
        ema_alpha: float,
        uniform_share: float,
        device: torch.device,
    ) -> None:
        self._last, self._bin_frames = last_frame, bin_frames
        self._alpha, self._uniform = ema_alpha, uniform_share
        self.failures = torch.zeros(max(1, -(-last_frame // bin_frames)), device=device)
        """m, shape (B,)."""

    def count(self, failed_at: torch.Tensor) -> None:
        """Takes in the frames at which robots failed in this step, shape (n,), n may be 0."""
        bins = failed_at.clamp(max=self._last - 1) // self._bin_frames
        counts = torch.bincount(bins, minlength=len(self.failures)).float()
        self.failures.mul_(1.0 - self._alpha).add_(self._alpha * counts)

    def probabilities(self) -> torch.Tensor:
        """p, shape (B,)."""
        n_bins, total = len(self.failures), self.failures.sum()
        share = self._uniform if total > 0 else 1.0
        uniform = torch.full_like(self.failures, 1.0 / n_bins)
        return share * uniform + (1.0 - share) * self.failures / total.clamp(min=1e-12)

    def draw(self, n: int, generator: torch.Generator) -> torch.Tensor:
        """n start frames, uniform within their bins, shape (n,)."""
        bins = torch.multinomial(self.probabilities(), n, replacement=True, generator=generator)
        within = torch.rand(n, generator=generator, device=self.failures.device)
        return ((bins + within) * self._bin_frames).long().clamp(max=self._last - 1)
