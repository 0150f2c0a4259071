# SPDX-License-Identifier: Apache-2.0
"""What a person does with the state of a pipeline: copy it, go back in it, give up what is lost."""
